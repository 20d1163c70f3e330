"""Simulate how often intervals of a paired difference of two ASRs hold the true one, and how often each test errs.

    python benchmarks/coverage.py --out benchmarks/results/coverage.json
    python benchmarks/coverage.py --overlap --out benchmarks/results/coverage_overlap.json

The world: a victim falls on an example if a sum passes a threshold. The sum has a part of the example (the same for
both encoders), one of the example and the method (the same in each training of the method), one of the training, one of
the fine-tuning, and noise. `sd` are standard deviations of ASR in points that the training and the fine-tuning alone
cause. Each fine-tuning seed attacks a sample of its own; all trainings attack the same samples. With --overlap half or
all of a sample's texts are those of every seed, and there are comparisons of one training with several. In half of the
worlds the second encoder's ASR is 10 points higher. The true difference is that of the methods: over all trainings,
seeds and examples.

Ways to make an interval: `rbench` is that of rbench.score.paired. `trainings` is Welch's t test of the trainings'
mean ASRs. `bootstrap` resamples trainings, then fine-tuning seeds, then examples (percentile, 95%). `examples` is what
counts each text as its own draw, paired and without any seed.

One training of a method cannot show what trainings do: where an encoder has 1, the true difference that is to be held
is that of this training; with one fine-tuning as well, that of these two victims.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy import stats

from rbench.score.paired import PairedSample, compare


class Design(NamedTuple):
    """How many trainings and fine-tunings a comparison has, and which share of texts (0..1) all seeds attack."""

    one: int
    other: int
    seeds: int
    shared: float = 0.0

    def __str__(self) -> str:
        trainings = f"{self.one}" if self.one == self.other else f"{self.one} and {self.other}"
        return f"{trainings}x{self.seeds}"


Array = NDArray[np.float64]
Interval = tuple[float, float]


class Fell(NamedTuple):
    """Which examples fell (1.0 or 0.0), for two encoders: arrays of (trainings, fine-tuning seeds, examples)."""

    one: Array
    other: Array
    common: int
    """How many examples, the first ones, are the same texts in each seed."""


DESIGNS = tuple(Design(trainings, trainings, seeds) for trainings, seeds in ((1, 1), (3, 1), (3, 3), (5, 3)))
OVERLAP = tuple(
    Design(one, other, seeds, shared)
    for one, other, seeds in ((1, 1, 3), (3, 3, 2), (3, 3, 3), (1, 3, 3))
    for shared in (0.0, 0.5, 1.0)
)
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
    parser.add_argument("--overlap", action="store_true", help="seeds share texts, or one encoder has one training")
    args = parser.parse_args()
    ways = ("rbench", "examples") if args.overlap else ("rbench", "trainings", "bootstrap", "examples")
    rows = [
        setting(design, spread, n, difference, args.worlds, args.draws, ways)
        for design in (OVERLAP if args.overlap else DESIGNS)
        for spread in SPREADS
        for n in SIZES
        for difference in (0.0, DIFFERENCE)
    ]
    found = {
        "what": "coverage of 95% intervals of a paired difference of ASR; see benchmarks/coverage.py",
        "command": f"python benchmarks/coverage.py --worlds {args.worlds} "
        + ("--overlap" if args.overlap else f"--draws {args.draws}")
        + " --out FILE",
        "standard error of a share of 0.95": round(float(np.sqrt(0.95 * 0.05 / args.worlds)), 4),
        "rows": rows,
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "numpy", "scipy")},
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def setting(
    design: Design, spread: tuple[int, int], n: int, difference: float, worlds: int, draws: int, ways: Iterable[str]
) -> dict[str, Any]:
    """Simulate one setting; return for each way the share of intervals that hold the truth, and their mean width."""
    # The seeds of DESIGNS are those of the committed numbers, which are older than the other fields of a design.
    named = design[1:3] if design in DESIGNS else [*design[:3], int(100 * design.shared)]
    rng = np.random.default_rng([*named, *spread, n, int(100 * difference)])
    held: dict[str, list[bool]] = {way: [] for way in ways}
    widths: dict[str, list[float]] = {way: [] for way in ways}
    significant = []
    for _ in range(worlds):
        found, truth = world(rng, design, spread, n, difference)
        for way in held:
            low, high = bootstrap(found, rng, draws) if way == "bootstrap" else WAYS[way](found)
            held[way].append(bool(low <= truth <= high))
            widths[way].append(high - low)
        significant.append(compare(sample(found), shares=True).significant())
    return {
        "trainings x seeds": str(design),
        "texts that all seeds share": design.shared,
        "sd of trainings, of fine-tunings": list(spread),
        "n a seed": n,
        "difference": difference,
        "coverage": {way: round(float(np.mean(values)), 3) for way, values in held.items()},
        "width": {way: round(100 * float(np.mean(values)), 1) for way, values in widths.items()},
        "significant (rbench)": round(float(np.mean(significant)), 3),
    }


def world(
    rng: np.random.Generator, design: Design, spread: tuple[int, int], n: int, difference: float
) -> tuple[Fell, float]:
    """Draw one comparison, and the true difference."""
    units = [points / 100 / DENSITY for points in spread]
    total = float(np.sqrt(2 + units[0] ** 2 + units[1] ** 2))
    common = round(design.shared * n)

    def of_texts() -> Array:
        drawn = rng.normal(size=(1, design.seeds, n))
        drawn[:, :, :common] = drawn[:, :1, :common]
        return drawn

    hard = of_texts() * np.sqrt(1 - OWN)
    fell, shares = [], []
    for method, trainings in ((BASE, design.one), (BASE + difference, design.other)):
        threshold = stats.norm.ppf(method) * total
        own_hard = of_texts() * np.sqrt(OWN)
        training = rng.normal(size=(trainings, 1, 1)) * units[0]
        seed = rng.normal(size=(trainings, design.seeds, 1)) * units[1]
        noise = rng.normal(size=(trainings, design.seeds, n))
        fell.append((hard + own_hard + training + seed + noise + threshold > 0).astype(float))
        one_victim = design[:3] == (1, 1, 1)
        given, left = (training[0, 0, 0] + seed[0, 0, 0], 2) if one_victim else (training[0, 0, 0], 2 + units[1] ** 2)
        own = float(stats.norm.cdf((threshold + given) / np.sqrt(left)))
        shares.append(own if trainings == 1 else method)
    return Fell(fell[0], fell[1], common), shares[1] - shares[0]


def sample(fell: Fell) -> PairedSample:
    """Pair the trainings; a single one is paired with each of the other encoder's."""
    training, seed, text = (axis.ravel() for axis in np.indices(fell.other.shape))
    mine = np.minimum(training, len(fell.one) - 1)
    example = seed * fell.other.shape[2] + text
    values = fell.one[mine, seed, text], fell.other.ravel()
    return PairedSample(*values, example, seed, mine, training, np.where(text < fell.common, text, example))


def ours(fell: Fell) -> Interval:
    found = compare(sample(fell), shares=True)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def by_training(fell: Fell) -> Interval:
    a, b = fell.one.mean(axis=(1, 2)), fell.other.mean(axis=(1, 2))
    if len(a) < 2:
        return float("-inf"), float("inf")
    found = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    return float(found.low), float(found.high)


def by_example(fell: Fell) -> Interval:
    differences = (fell.other - fell.one).ravel()
    half = 1.96 * float(differences.std(ddof=1)) / float(np.sqrt(len(differences)))
    return float(differences.mean()) - half, float(differences.mean()) + half


def bootstrap(fell: Fell, rng: np.random.Generator, draws: int) -> Interval:
    one, other = fell.one, fell.other
    trainings, seeds, n = one.shape
    means = np.empty(draws)
    for draw in range(draws):
        s, e = rng.integers(seeds, size=seeds), rng.integers(n, size=(seeds, n))
        a, b = rng.integers(trainings, size=(2, trainings))
        means[draw] = other[b[:, None, None], s[:, None], e].mean() - one[a[:, None, None], s[:, None], e].mean()
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


WAYS: dict[str, Callable[[Fell], Interval]] = {"rbench": ours, "trainings": by_training, "examples": by_example}
"""All but the bootstrap, which draws."""

if __name__ == "__main__":
    main()
