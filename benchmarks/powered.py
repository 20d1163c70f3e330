"""Simulate intervals of valid ASR from people's answers on some successes, and a proxy's on all (`score.powered`).

    python benchmarks/powered.py cover --out benchmarks/results/powered.json
    python benchmarks/powered.py package --out benchmarks/results/powered_package.json   # needs ppi-python

`cover`: of some texts 60% fall, people would accept a part of the successes, and judge a random sample of them. How
often does the interval hold what all such raters would say of all such texts, with raters as a level, and how wide is
it beside that of people's answers alone? Raters are as in judging.py, or know every label. The proxy is one of PROXIES:
among them some that tell nothing, that say the opposite, or that accept nearly all. An interval that holds less often
with a bad proxy than without one would be no use.

`package`: the estimate, weight and interval beside those of ppi-python on the same numbers, which is no dependency of
rbench since it brings numba and llvmlite.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.score.people import accepted_limits, estimate_rater_variance, limits_of_product, widen_by_raters
from rbench.score.powered import estimate_limits, estimate_with_proxy

Values = NDArray[np.float64]
FELL = 0.6
RATERS = {"who know every label": (1.0, 1.0), "of unlike skill": (0.8, 1.0)}
LEANING = (0.3, 0.7)


def _agrees(share: float) -> Callable[[np.random.Generator, NDArray[np.bool_]], Values]:
    return lambda rng, true: np.where(rng.random(len(true)) < share, true, ~true).astype(np.float64)


PROXIES: dict[str, Callable[[np.random.Generator, NDArray[np.bool_]], Values]] = {
    "agrees with 95%": _agrees(0.95),
    "agrees with 80%": _agrees(0.8),
    "a score of AUC 0.76": lambda rng, true: 1 / (1 + np.exp(-rng.normal(np.where(true, 1.0, 0.0)))),
    "tells nothing": lambda rng, true: rng.random(len(true)),
    "says the opposite": _agrees(0.2),
    "accepts nine of ten that people do not": lambda rng, true: np.where(rng.random(len(true)) < 0.1, true, 1.0),
    "says yes to all": lambda rng, true: np.ones(len(true)),
}
"""By name: what a proxy says of successes that people would accept or not."""


def sheet(
    rng: np.random.Generator, proxy: str, n: int, judged: int, raters: int, kept: float, skill: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Simulate one sheet. Return the interval of people's answers alone, that with a proxy, and the proxy's weight."""
    fell = rng.random(n) < FELL
    true = rng.random(int(fell.sum())) < kept
    said = PROXIES[proxy](rng, true)
    knows = rng.random((raters, judged)) < rng.uniform(*skill, raters)[:, None]
    leaning = rng.random((raters, judged)) < rng.uniform(*LEANING, raters)[:, None]
    answers = np.where(knows, true[:judged], leaning).astype(np.float64)  # texts are in a random order
    shares, rate = answers.mean(axis=0), fell.mean()
    found = estimate_with_proxy(shares, said[:judged], said[judged:])
    by_rater = np.zeros((raters, n))
    for row, own in zip(by_rater, answers, strict=True):  # as the metric has it
        row[:] = own.mean() * fell
        row[np.flatnonzero(fell)[:judged]] += rate * n / judged * (own - own.mean())
    people, intervals = estimate_rater_variance(by_rater), []
    for mean, ends in (
        (shares.mean(), accepted_limits(shares, raters)),
        (min(1.0, max(0.0, found.mean)), estimate_limits(found, shares, raters)),
    ):
        intervals.append(widen_by_raters(rate * mean, limits_of_product((fell.sum(), n), float(mean), ends), people))
    return intervals[0], intervals[1], found.weight


def cover(sheets: int) -> list[dict[str, Any]]:
    """Return a row for each proxy, number of judged texts, raters and share of accepted successes."""
    rows = []
    for who, raters, kept, judged, proxy in product(RATERS, (1, 3), (0.3, 0.67, 0.95), (25, 50, 100), PROXIES):
        skill = RATERS[who]
        if raters == 1 and skill[0] < 1:
            continue  # one rater's answers say nothing of others'
        rng = np.random.default_rng([raters, round(100 * kept), judged, list(PROXIES).index(proxy), len(who)])
        found = [sheet(rng, proxy, 1000, judged, raters, kept, skill) for _ in range(sheets)]
        knows = sum(skill) / 2
        truth = FELL * (knows * kept + (1 - knows) * sum(LEANING) / 2)
        held = np.array([[low <= truth <= high for low, high in one[:2]] for one in found]).mean(axis=0)
        widths = np.array([[high - low for low, high in one[:2]] for one in found]).mean(axis=0)
        rows.append(
            {
                "proxy": proxy,
                "raters": raters,
                "who": who,
                "kept": kept,
                "judged": judged,
                "sheets": sheets,
                "people alone": round(float(held[0]), 3),
                "with the proxy": round(float(held[1]), 3),
                "width alone": round(float(widths[0]), 4),
                "width": round(float(widths[1]), 4),
                "weight": round(float(np.mean([one[2] for one in found])), 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


def drawn(seed: int) -> tuple[Values, Values, Values]:
    """Draw shares of raters on some successes, and what a proxy says of these and of others."""
    rng = np.random.default_rng(seed)
    n, others = int(rng.integers(20, 200)), int(rng.integers(100, 1000))
    true = rng.random(n + others) < rng.uniform(0.2, 0.9)
    said = PROXIES[[*PROXIES][seed % 6]](rng, true)
    shares = (rng.random((3, n)) < np.where(true[:n], 0.9, 0.2)).mean(axis=0)
    return shares, said[:n], said[n:]


def package(draws: int) -> list[dict[str, Any]]:
    """Return the numbers of ppi-python and ours on the same draws."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # type: ignore[import-not-found]

    rows = []
    for i in range(draws):
        shares, known, rest = drawn(i)
        of = shares, known, rest
        ours = estimate_with_proxy(*of)
        theirs = float(np.squeeze(ppi_mean_pointestimate(*of)))
        low, high = (float(np.squeeze(end)) for end in ppi_mean_ci(*of, alpha=0.05, lam=ours.weight))
        given = float(np.squeeze(ppi_mean_pointestimate(*of, lam=ours.weight)))
        row = {"seed": i, "n": len(shares), "others": len(rest), **ours._asdict()}
        rows.append(
            {**row, "their_mean": theirs, "their_mean_at_this_weight": given, "their_low": low, "their_high": high}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cover", "package"])
    parser.add_argument("--sheets", type=int, default=2000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = cover(args.sheets) if args.part == "cover" else package(60)
    from machine import processor  # of this folder

    said: dict[str, Any] = {"machine": processor(), "python": platform.python_version(), "rows": rows}
    if args.part == "package":
        from importlib.metadata import version

        said["ppi-python"] = version("ppi-python")
    args.out.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
