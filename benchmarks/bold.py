"""Simulate how often a table of methods that do not differ has any bold, with one training of each.

    python benchmarks/bold.py --out benchmarks/results/bold.json

The world is that of benchmarks/coverage_of_intervals.py: a victim falls on a text if a sum of the text's part, the
training's and noise passes a threshold, at a success rate of one half. All methods are the same, so that no bold should
be there. `sd` is the standard deviation of the success rate between trainings, in points (0: only the choice of texts
varies). Columns are attacked with texts of their own; a training is as good in each of them.

A table has bold where a column has an entry that is significantly worse than the best: exact McNemar tests of the best
against the others, corrected by Holm over all pairs of all columns. Beside it stands the
share of columns that have bold where the pairs of each column are corrected for themselves.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rbench.score.paired import correct_by_holm
from rbench.verdicts.pairing import ALPHA

ENCODERS, COLUMNS, SPREADS, TEXTS = (2, 4, 8), (1, 10), (0, 3, 8), 100
DENSITY = float(stats.norm.pdf(0) / np.sqrt(2))
"""How much of the rate a shift of the threshold's unit costs."""


def fell(rng: np.random.Generator, encoders: int, columns: int, sd: float) -> NDArray[np.bool_]:
    """Which texts fall: an array of (columns, encoders, texts)."""
    texts = rng.normal(size=(columns, 1, TEXTS))
    trainings = rng.normal(0, sd / 100 / DENSITY, size=(1, encoders, 1))
    return texts + trainings + rng.normal(size=(columns, encoders, TEXTS)) > 0


def against_best(column: NDArray[np.bool_]) -> list[float | None]:
    """Return exact McNemar's p of the best entry of a column against each other one."""
    best = int(column.sum(axis=1).argmin())
    others = np.delete(column, best, axis=0)
    worse, better = (others & ~column[best]).sum(axis=1), (~others & column[best]).sum(axis=1)
    p = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(worse, better), worse + better, 0.5))
    return [float(one) for one in p]


def simulate(rng: np.random.Generator, encoders: int, columns: int, sd: float, tables: int) -> dict[str, float]:
    """Return the share of tables with any bold, of columns with any, and of columns under the earlier rule."""
    pairs = encoders * (encoders - 1) // 2
    found: list[tuple[bool, float, float]] = []
    for _ in range(tables):
        each = [against_best(column) for column in fell(rng, encoders, columns, sd)]
        whole = correct_by_holm([p for column in each for p in column], columns * pairs)
        bold = (np.array(whole, dtype=float).reshape(columns, encoders - 1) < ALPHA).any(axis=1)
        alone = [(np.array(correct_by_holm(column, pairs), dtype=float) < ALPHA).any() for column in each]
        found.append((bool(bold.any()), float(np.mean(bold)), float(np.mean(alone))))
    table, column, before = (round(float(np.mean(one)), 3) for one in zip(*found, strict=True))
    return {"tables": table, "columns": column, "columns, corrected each for itself": before}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rng, rows = np.random.default_rng(0), []
    for sd in SPREADS:
        for encoders in ENCODERS:
            for columns in COLUMNS:
                share = simulate(rng, encoders, columns, sd, given.tables)
                rows.append({"sd of trainings": sd, "encoders": encoders, "columns": columns, "with bold": share})
                print(rows[-1])
    content = {
        "what": "how often equal methods get any bold, with one training of each; see benchmarks/bold.py",
        "command": f"python benchmarks/bold.py --tables {given.tables} --out FILE",
        "texts": TEXTS,
        "standard error of a share of one half": round(0.5 / given.tables**0.5, 3),
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
