"""Simulate what people's answers are worth: the oracle as a rater, and how many ratings tell 5 points apart.

    rbench run benchmarks/judging.yaml --out RUN
    python benchmarks/judging.py oracle RUN --out benchmarks/results/judging_oracle.json
    python benchmarks/judging.py needed --out benchmarks/results/judging_needed.json

`needed`: two encoders are attacked on the same 1000 or 4000 texts, 60% fall in either, and people would accept 2/3 of
the successes of one. How often does `rbench compare` find that valid ASR differs by so many points, by judged successes
a cell and raters? Whether a success is valid correlates by 0.5 between the encoders. A rater knows the label of 80% to
100% of texts, and else says that it is kept with a probability of 0.3 to 0.7; both are the rater's own. `reach` is half
of the interval of a difference of 5 points, `coverage` how often it holds what all such raters would say.

`oracle`: a RUN of the embedded world is judged by its oracle from 500 sheets, each drawn anew with another seed. How
often does the interval of `valid_asr` hold the RUN's own oracle-valid ASR, which stands on all successes?
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy.special import ndtri

from rbench.metrics import Observations, accepted, added
from rbench.mini.oracle import oracle
from rbench.report.sheet import draw_sheet
from rbench.schema.judged import SCALE, TEXTS, UNSURE, Answer, HumanJudgements
from rbench.score.paired import DifferenceEstimate, PairedSample, compare
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid


def judged_by_oracle(run: Path, per_cell: int, seed: int) -> Results:
    """Return the results of a RUN whose texts the oracle has judged from a sheet of its own."""
    results = Results.of(RunStore(run))
    drawn = draw_sheet(results, per_cell, 1, seed)
    answers = []
    for item, texts in drawn.asked:
        true = [oracle(item.task, list(text)) for text in texts]
        if item.kind in TEXTS:
            answers.append(Answer(rater=1, item=item.id, label=UNSURE if true[0] is None else int(true[0])))
        else:
            answers.append(Answer(rater=1, item=item.id, meaning=SCALE if true[0] == true[1] else 1))
    results.__dict__["judged"] = HumanJudgements(
        sheet=drawn.sheet, answers=tuple(answers)
    )  # in place of the RUN's file
    return results


def of_oracle(run: Path, sheets: int, per_cell: int) -> list[dict[str, Any]]:
    """Judge a RUN from many sheets; return a row for each of its cells."""
    found: dict[tuple[str, ...], list[tuple[float, float, float]]] = {}
    truth: dict[tuple[str, ...], dict[str, Any]] = {}
    for seed in range(sheets):
        for key, cell in attack_grid(judged_by_oracle(run, per_cell, seed)).cells.items():
            score = cell.score("valid_asr")
            assert score.low is not None and score.high is not None and score.value is not None
            found.setdefault(key, []).append((score.value, score.low, score.high))
            counts = cell.pooled
            told = {"task": cell.task, "attack": cell.attack, "attacked": counts.succeeded + counts.failed}
            truth[key] = {**told, "successes": counts.succeeded, "oracle_asr": cell.score("oracle_asr").value}
    rows = []
    for key, numbers in found.items():
        value, low, high = np.array(numbers).T
        true = truth[key]["oracle_asr"]
        held = (low <= true) & (true <= high)
        told = {"mean": value.mean(), "sd": value.std(ddof=1), "width": (high - low).mean(), "coverage": held.mean()}
        rows.append({**truth[key], "sheets": sheets, **{name: round(float(x), 4) for name, x in told.items()}})
    return rows


FELL, KEPT, CORRELATION = 0.6, 2 / 3, 0.5
SKILL, LEANING = (0.8, 1.0), (0.3, 0.7)
SIZES, RATERS, DIFFERENCES = (25, 50, 100, 200, 400, 600), (1, 2, 3, 5), (0.0, 0.05, 0.1, 0.15, 0.2)
MANY = ((4000, 400, 3), (4000, 800, 3), (4000, 1600, 1), (4000, 1600, 3), (4000, 2400, 3))
"""Attacked texts, judged successes and raters where 1000 texts are not enough."""
Values = NDArray[np.float64]


def correlated(rng: np.random.Generator, n: int, rates: tuple[float, float]) -> NDArray[np.bool_]:
    """Return (2, n): what happens to each text in either encoder, at two rates."""
    own = rng.standard_normal((2, n)) * math.sqrt(1 - CORRELATION)
    found: NDArray[np.bool_] = own + rng.standard_normal(n) * math.sqrt(CORRELATION) < ndtri(np.array(rates))[:, None]
    return found


def values_of(fell: NDArray[np.bool_], shares: Values) -> Values:
    """Return what each text adds to valid ASR, as the metric does."""
    columns = {"example_id": np.arange(len(fell)), "status": np.where(fell, "succeeded", "failed").astype(object)}
    of = Observations(columns, asked=True)
    return accepted(of, shares) + added(of, shares)


def compared(rng: np.random.Generator, n: int, judged: int, raters: int, difference: float) -> DifferenceEstimate:
    """Simulate one sheet for two encoders, and compare them."""
    fell = correlated(rng, n, (FELL, FELL))
    kept = correlated(rng, n, (KEPT, KEPT - difference / FELL))
    skills, leanings = rng.uniform(*SKILL, raters), rng.uniform(*LEANING, raters)
    sides: list[tuple[Values, dict[str, Values]]] = []
    for own, true in zip(fell, kept, strict=True):
        asked = np.flatnonzero(own)[:judged]  # texts are in a random order, the same for both
        knows = rng.random((raters, len(asked))) < skills[:, None]
        answers = np.where(knows, true[asked], rng.random((raters, len(asked))) < leanings[:, None])
        shares = np.full((raters + 1, n), np.nan)
        shares[:raters, asked], shares[raters, asked] = answers, answers.mean(axis=0)
        by_rater = {str(who): values_of(own, shares[who]) for who in range(raters)}
        sides.append((values_of(own, shares[raters]), by_rater))
    texts, none = np.arange(n), np.zeros(n, np.int64)
    sample = PairedSample(sides[0][0], sides[1][0], texts, none, none, none, texts, (sides[0][1], sides[1][1]))
    return compare(sample, shares=False)


def needed(sheets: int) -> list[dict[str, Any]]:
    """Return a row for each number of judged successes and of raters."""
    rows = []
    for n, judged, raters in (*((1000, *one) for one in product(SIZES, RATERS)), *MANY):
        row: dict[str, Any] = {
            "attacked": n,
            "judged": judged,
            "raters": raters,
            "ratings": 2 * judged * raters,
            "sheets": sheets,
        }
        for difference in DIFFERENCES:
            rng = np.random.default_rng([n, judged, raters, round(1000 * difference)])
            found = [compared(rng, n, judged, raters, difference) for _ in range(sheets)]
            row[f"told {100 * difference:g}"] = round(float(np.mean([one.significant() for one in found])), 3)
            if difference == 0.05:
                reaches = [(one.high - one.low) / 2 for one in found if one.high is not None and one.low is not None]
                row["reach"] = round(100 * float(np.median(reaches)), 1)
                told = -difference * sum(SKILL) / 2  # what all such raters would say
                ends = [(one.low or 0) <= told <= (one.high or 0) for one in found]
                row["coverage"] = round(float(np.mean(ends)), 3)
        print(row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    own = parts.add_parser("oracle")
    own.add_argument("run", type=Path)
    own.add_argument("--sheets", type=int, default=500)
    own.add_argument("--per-cell", type=int, default=50)
    own.add_argument("--out", type=Path, required=True)
    own = parts.add_parser("needed")
    own.add_argument("--sheets", type=int, default=400)
    own.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = of_oracle(args.run, args.sheets, args.per_cell) if args.part == "oracle" else needed(args.sheets)
    more = {"per_cell": args.per_cell} if args.part == "oracle" else {}
    said = {"machine": processor(), "python": platform.python_version(), **more, "rows": rows}
    args.out.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
