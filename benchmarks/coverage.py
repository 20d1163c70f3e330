"""Simulate how often intervals of a paired difference of two ASRs hold the true one, and how often each test errs.

    python benchmarks/coverage.py --out benchmarks/results/coverage.json

The world: a victim falls on an example if a sum passes a threshold. The sum has a part of the example (the same for
both encoders), one of the example and the method (the same in each training of the method), one of the training, one of
the fine-tuning, and noise. `sd` are standard deviations of ASR in points that the training and the fine-tuning alone
cause. Each fine-tuning seed attacks a sample of its own; all trainings attack the same samples. In half of the worlds
the second encoder's ASR is 10 points higher. The true difference is that of the methods: over all trainings, seeds and
examples.

Ways to make an interval: `rbench` is that of rbench.score.paired. `trainings` is Welch's t test of the trainings'
mean ASRs. `bootstrap` resamples trainings, then fine-tuning seeds, then examples (percentile, 95%). `examples` is what
counts each text as its own draw, paired and without any seed.

One training of a method cannot show what trainings do: with 1 training the true difference that is to be held is that
of these two encoders.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy import stats

from rbench.score.paired import PairedSample, compare

Array = NDArray[np.float64]
Interval = tuple[float, float]
DESIGNS = ((1, 1), (3, 1), (3, 3), (5, 3))
"""Trainings x fine-tuning seeds."""
SPREADS = ((0, 0), (3, 3), (8, 3))
"""Standard deviations between trainings and between fine-tuning seeds, in points of ASR."""
SIZES = (50, 200)
BASE, DIFFERENCE = 0.5, 0.1
OWN = 0.3
"""Share of an example's part that is the method's own, in 0..1."""
DENSITY = float(stats.norm.pdf(0) / np.sqrt(2))
"""How much ASR a shift of the threshold's unit costs, at an ASR of one half with example and noise of variance 1."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--worlds", type=int, default=1000, help="simulated comparisons of each setting")
    parser.add_argument("--draws", type=int, default=299, help="resamples of the bootstrap")
    args = parser.parse_args()
    rows = [
        setting(design, spread, n, difference, args.worlds, args.draws)
        for design in DESIGNS
        for spread in SPREADS
        for n in SIZES
        for difference in (0.0, DIFFERENCE)
    ]
    found = {
        "what": "coverage of 95% intervals of a paired difference of ASR; see benchmarks/coverage.py",
        "command": f"python benchmarks/coverage.py --worlds {args.worlds} --draws {args.draws} --out FILE",
        "standard error of a share of 0.95": round(float(np.sqrt(0.95 * 0.05 / args.worlds)), 4),
        "rows": rows,
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "numpy", "scipy")},
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def setting(
    design: tuple[int, int], spread: tuple[int, int], n: int, difference: float, worlds: int, draws: int
) -> dict[str, Any]:
    """Simulate one setting; return for each way the share of intervals that hold the truth, and their mean width."""
    rng = np.random.default_rng([*design, *spread, n, int(100 * difference)])
    held: dict[str, list[bool]] = {way: [] for way in WAYS}
    widths: dict[str, list[float]] = {way: [] for way in WAYS}
    significant = []
    for _ in range(worlds):
        one, other, truth = world(rng, design, spread, n, difference)
        for way, interval in WAYS.items():
            low, high = interval(one, other, rng, draws)
            held[way].append(bool(low <= truth <= high))
            widths[way].append(high - low)
        significant.append(compare(sample(one, other), shares=True).significant())
    return {
        "trainings x seeds": f"{design[0]}x{design[1]}",
        "sd of trainings, of fine-tunings": list(spread),
        "n a seed": n,
        "difference": difference,
        "coverage": {way: round(float(np.mean(values)), 3) for way, values in held.items()},
        "width": {way: round(100 * float(np.mean(values)), 1) for way, values in widths.items()},
        "significant (rbench)": round(float(np.mean(significant)), 3),
    }


def world(
    rng: np.random.Generator, design: tuple[int, int], spread: tuple[int, int], n: int, difference: float
) -> tuple[Array, Array, float]:
    """Draw one comparison: which examples fell, by training, seed and example, for two encoders; and the truth."""
    trainings, seeds = design
    units = [points / 100 / DENSITY for points in spread]
    hard = rng.normal(size=(1, seeds, n)) * np.sqrt(1 - OWN)
    total = float(np.sqrt(2 + units[0] ** 2 + units[1] ** 2))
    fell, shares = [], []
    for method in (BASE, BASE + difference):
        threshold = stats.norm.ppf(method) * total
        own_hard = rng.normal(size=(1, seeds, n)) * np.sqrt(OWN)
        training = rng.normal(size=(trainings, 1, 1)) * units[0]
        seed = rng.normal(size=(trainings, seeds, 1)) * units[1]
        noise = rng.normal(size=(trainings, seeds, n))
        fell.append((hard + own_hard + training + seed + noise + threshold > 0).astype(float))
        own = float(stats.norm.cdf((threshold + training[0, 0, 0] + seed[0, 0, 0]) / np.sqrt(2)))
        shares.append(own if design == (1, 1) else method)
    return fell[0], fell[1], shares[1] - shares[0]


def sample(one: Array, other: Array) -> PairedSample:
    training, seed, example = (axis.ravel() for axis in np.indices(one.shape))
    return PairedSample(one.ravel(), other.ravel(), seed * one.shape[2] + example, seed, training, training)


def ours(one: Array, other: Array, rng: np.random.Generator, draws: int) -> Interval:
    found = compare(sample(one, other), shares=True)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def by_training(one: Array, other: Array, rng: np.random.Generator, draws: int) -> Interval:
    a, b = one.mean(axis=(1, 2)), other.mean(axis=(1, 2))
    if len(a) < 2:
        return float("-inf"), float("inf")
    found = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    return float(found.low), float(found.high)


def bootstrap(one: Array, other: Array, rng: np.random.Generator, draws: int) -> Interval:
    trainings, seeds, n = one.shape
    means = np.empty(draws)
    for draw in range(draws):
        s, e = rng.integers(seeds, size=seeds), rng.integers(n, size=(seeds, n))
        a, b = rng.integers(trainings, size=(2, trainings))
        means[draw] = other[b[:, None, None], s[:, None], e].mean() - one[a[:, None, None], s[:, None], e].mean()
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def by_example(one: Array, other: Array, rng: np.random.Generator, draws: int) -> Interval:
    differences = (other - one).ravel()
    half = 1.96 * float(differences.std(ddof=1)) / float(np.sqrt(len(differences)))
    return float(differences.mean()) - half, float(differences.mean()) + half


WAYS: dict[str, Callable[[Array, Array, np.random.Generator, int], Interval]] = {
    "rbench": ours,
    "trainings": by_training,
    "bootstrap": bootstrap,
    "examples": by_example,
}

if __name__ == "__main__":
    main()
