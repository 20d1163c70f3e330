"""Simulate how often the interval of a difference in `words_needed` holds the true one, with ties and censoring.

    python benchmarks/words_needed.py --worlds 1000 --out benchmarks/results/words_needed.json

The world: the logarithm of the words that a text needs is a normal sum of the method, the text (variance 0.64, shared
by both methods and by all trainings and seeds), text and method (0.16), the training, the fine-tuning seed, and noise
(0.25). Words are whole numbers from 1, so many texts are tied, and more than LIMIT count as LIMIT + 1: they are
censored. Three levels say how many texts fall. With a single training of each and one seed, these do not vary: the
verdict is about these weights. The true difference follows from the normal distribution, without simulation.

The intervals and p are those of `rbench.score.paired.compare`, as tables and claims use them. A false alarm is p below
0.05 where nothing differs. `p and interval disagree` counts worlds in which p is below 0.05 and the interval holds 0,
or the other way round.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy.stats import norm

from rbench.metrics.words_needed import LIMIT
from rbench.score.paired import PairedSample, compare

TEXT, TEXT_AND_METHOD, NOISE = 0.64, 0.16, 0.25
BETWEEN = 0.15
"""Standard deviation of a training, and of a fine-tuning seed, on the scale of the logarithm."""
DESIGNS = ((1, 1, 1), (1, 1, 3), (3, 3, 1), (3, 3, 3))
"""Trainings of one method and of the other, and fine-tuning seeds of each."""
LEVELS = {"near the ceiling": 0.2, "in the middle": 1.0, "most hold": 2.0}
DIFFERENCES = (0.0, 0.2)


class World(NamedTuple):
    """A cell of the grid."""

    one: int
    other: int
    seeds: int
    n: int
    level: str
    difference: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 200])
    args = parser.parse_args()
    cells = [
        simulated_cell(World(*design, n, level, difference), args.worlds)
        for design, n, level, difference in product(DESIGNS, args.sizes, LEVELS, DIFFERENCES)
    ]
    null = [cell for cell in cells if not cell["difference of logarithms"]]
    found = {
        "what": "coverage of 95% intervals of differences in words needed; see benchmarks/words_needed.py",
        "command": f"python benchmarks/words_needed.py --worlds {args.worlds} --out FILE",
        "machine": processor(),
        "standard error of a coverage of 0.95": round(float(np.sqrt(0.95 * 0.05 / args.worlds)), 4),
        "summary": {
            "cells": len(cells),
            "least coverage": min(cell["coverage"] for cell in cells),
            "mean coverage": round(float(np.mean([cell["coverage"] for cell in cells])), 4),
            "most false alarms": max(cell["significant"] for cell in null),
            "mean of false alarms": round(float(np.mean([cell["significant"] for cell in null])), 4),
            "p and interval disagree": sum(cell["p and interval disagree"] for cell in cells),
        },
        "cells": cells,
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["summary"], indent=1))


def simulated_cell(world: World, worlds: int) -> dict[str, Any]:
    """Simulate one cell."""
    of_level = [*LEVELS].index(world.level)
    rng = np.random.default_rng([*world[:4], of_level, round(100 * world.difference)])
    between = BETWEEN if max(world[:3]) > 1 else 0.0
    truth = mean_words(world, world.difference) - mean_words(world, 0.0)
    held, alarms, disagree, censored, tied = 0, 0, 0, [], []
    for _ in range(worlds):
        text = rng.normal(0, np.sqrt(TEXT), world.n)
        one = drawn_words(rng, world, text, between, world.one, 0.0)
        other = drawn_words(rng, world, text, between, world.other, world.difference)
        found = compare(paired(one, other), shares=False)
        if found.low is None or found.high is None or found.p is None:
            continue
        held += found.low <= truth <= found.high
        alarms += found.p < 0.05
        disagree += (found.p < 0.05) != (not found.low <= 0 <= found.high)
        censored.append(float((one > LIMIT).mean()))
        tied.append(float((one == other).mean()))
    return {
        "trainings": list(world[:2]),
        "seeds": world.seeds,
        "n": world.n,
        "level": world.level,
        "difference of logarithms": world.difference,
        "true difference in words": round(truth, 4),
        "censored": round(float(np.mean(censored)), 3),
        "tied": round(float(np.mean(tied)), 3),
        "coverage": round(held / worlds, 4),
        "significant": round(alarms / worlds, 4),
        "p and interval disagree": disagree,
    }


def mean_words(world: World, difference: float) -> float:
    """Return the expected number of words, with LIMIT + 1 for those that are censored."""
    levels = (max(world[:2]) > 1) + (world.seeds > 1)
    deviation = np.sqrt(TEXT + TEXT_AND_METHOD + NOISE + BETWEEN**2 * levels)
    thresholds = np.log(np.arange(1, LIMIT + 1))
    return 1 + float(norm.sf(thresholds, LEVELS[world.level] + difference, deviation).sum())


def drawn_words(
    rng: np.random.Generator,
    world: World,
    text: NDArray[np.float64],
    between: float,
    trainings: int,
    difference: float,
) -> NDArray[np.float64]:
    """Return the words that each text needs, (trainings, seeds, n)."""
    several_trainings, several_seeds = max(world[:2]) > 1, world.seeds > 1
    shape = (trainings, world.seeds, len(text))
    logarithm = (
        LEVELS[world.level]
        + difference
        + text
        + rng.normal(0, np.sqrt(TEXT_AND_METHOD), len(text))
        + rng.normal(0, between * several_trainings, (trainings, 1, 1))
        + rng.normal(0, between * several_seeds, (trainings, world.seeds, 1))
        + rng.normal(0, np.sqrt(NOISE), shape)
    )
    words: NDArray[np.float64] = np.clip(np.ceil(np.exp(logarithm)), 1, LIMIT + 1)
    return words


def paired(one: NDArray[np.float64], other: NDArray[np.float64]) -> PairedSample:
    """Return the sample as rbench makes it of outcomes: an entry for each training, seed and text."""
    training, seed, text = (place.ravel() for place in np.indices(one.shape))
    example = seed * one.shape[2] + text
    return PairedSample(one.ravel(), other.ravel(), example, seed, training, training.copy(), text)


if __name__ == "__main__":
    main()
