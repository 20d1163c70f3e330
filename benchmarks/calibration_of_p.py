"""Simulate how often p falls below small levels where nothing differs, and what power that leaves.

    python benchmarks/calibration_of_p.py --out benchmarks/results/calibration_of_p.json

Two methods are fine-tuned with the same few seeds (or each trained a few times) and attacked on the same texts. A text
falls if a sum passes a threshold: a part of the text (variance 0.7, the same for both methods and all seeds that attack
it), one of text and method (0.21), one of the seed or training, and noise (0.3). The part of the seed is so large that
it moves a method's rate by the stated number of points, so a difference varies by sqrt(2) times as much.

*Levels.* Of two equal methods, how often is p below 0.05, 0.0125, 0.0036 and 0.001? Each of the last three is what Holm
asks of the smallest of 1, 4 and 14 comparisons, and a small one. `upper` is the upper limit of a one-sided 95%
interval (Clopper and Pearson), the number to hold against the level.

*Families.* Of 4 and 14 attacks on the same victims, how often does Holm find any difference? What seeds do to a victim
is correlated between attacks by 0, 0.5 or 1. The texts of each attack are drawn anew, which leaves the attacks as
independent as they can be.

*Power.* How often is a difference of 10 and 20 points found, beside a paired t test over the means of seeds? That test
errs too often where texts are shared by seeds (it takes them for the only texts) or where rates are so coarse that
seeds agree exactly, so it also stands with a critical value at which its errors are as frequent as the level says.

`before` is the rule that rbench had until this file: Student's t for what draws vary by beyond a quantile of what
texts explain, which was chosen at 0.05 and used at every level.

Nothing is computed by the package's `compare` but the first simulations of each cell, which must agree with it: the
interval of arrays excludes 0 at the confidence 1 - a exactly where its p is below a.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy import special, stats

from rbench.score.nested_intervals import VarianceLevels
from rbench.score.paired import PairedSample, compare, rounding_variance

Array = NDArray[np.float64]
Falls = NDArray[np.bool_]
LEVELS = (0.05, 0.0125, 0.0036, 0.001)
SEEDS, DEVIATIONS, RATES, SIZES = (2, 3, 5), (0, 3, 8), (0.1, 0.5, 0.9), (40, 200)
TRAININGS, TRAINED_RATES = (2, 3, 5), (0.5, 0.9)
POINTS = (0.1, 0.2)
TEXT, METHOD, NOISE = 0.7, 0.21, 0.3
TOTAL = TEXT + METHOD + NOISE
BATCH = 20_000
"""Simulations at a time."""
SMALL = 1000
"""The same, of worlds whose texts are drawn one by one."""


class World(NamedTuple):
    """Two methods with their draws: fine-tuning seeds that both have, or trainings of each."""

    draws: int
    deviation: int
    """Of a method's rate from draw to draw, in points."""
    rate: float
    n: int
    """Number of texts of a draw."""
    shared: bool = False
    """Whether all draws have the same texts; else no two share one."""
    difference: float = 0.0
    trained: bool = False

    @property
    def units(self) -> float:
        """The standard deviation of what a draw adds to the sum."""
        return self.deviation / 100 / float(stats.norm.pdf(stats.norm.ppf(self.rate))) * TOTAL**0.5

    @property
    def thresholds(self) -> list[float]:
        """What is added to the sum so that the mean rates are as they should be."""
        rates = (self.rate, self.rate + self.difference)
        return [float(stats.norm.ppf(rate)) * (TOTAL + self.units**2) ** 0.5 for rate in rates]


class Observed(NamedTuple):
    """What the arrays of an interval need, an entry a simulation."""

    both: Array
    """Share of observations in which both methods' texts fell."""
    first: Array
    second: Array
    spread: VarianceLevels
    texts: int
    """Number of different texts."""
    total: int
    """Number of observations."""
    means: Array
    """Differences by seed: (simulations, seeds); empty where methods were trained apart."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--worlds", type=int, default=200_000, help="simulations of each cell of the levels")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    start = time.monotonic()
    cells = {
        level_cell: (list(product(SEEDS, DEVIATIONS, RATES, SIZES, (False, True))), args.worlds),
        trained_cell: (list(product(TRAININGS, DEVIATIONS, TRAINED_RATES, SIZES)), args.worlds),
        family_cell: (list(product(SEEDS, (4, 14), (0.0, 0.5, 1.0), DEVIATIONS, (60,))), args.worlds // 4),
        power_cell: (list(product((3, 5), DEVIATIONS, (0.3, 0.5), SIZES, POINTS, (False, True))), args.worlds // 10),
    }
    with ProcessPoolExecutor(args.processes) as pool:
        jobs = [[pool.submit(run, *cell, worlds=worlds) for cell in own] for run, (own, worlds) in cells.items()]
        levels, trained, families, power = ([job.result() for job in own] for own in jobs)
    found = {
        "what": "false positives at small levels, and power; see benchmarks/calibration_of_p.py",
        "command": f"python benchmarks/calibration_of_p.py --worlds {args.worlds} --out FILE",
        "seeds of the simulation": "numpy.random.default_rng of the cell's own numbers, as in the code",
        "summary": summary(levels, trained, families, power),
        "levels of seeds": levels,
        "levels of trainings": trained,
        "families": families,
        "power": power,
        "seconds": round(time.monotonic() - start),
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "numpy", "scipy")},
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def level_cell(seeds: int, deviation: int, rate: float, n: int, shared: bool, *, worlds: int) -> dict[str, Any]:
    """Count how often p of two equal methods is below each level."""
    rng = np.random.default_rng([seeds, deviation, round(100 * rate), n, int(shared)])
    world = World(seeds, deviation, rate, n, shared)
    counts = {name: np.zeros(len(LEVELS)) for name in ("now", "before")}
    for observed in batches(rng, world, worlds):
        counts["now"] += [significant(observed, level).sum() for level in LEVELS]
        counts["before"] += [significant(observed, level, before=True).sum() for level in LEVELS]
    place = {"seeds": seeds, "sd of seeds in points": deviation, "rate": rate, "n": n, "texts shared": shared}
    return place | {name: rates_of(count, worlds) for name, count in counts.items()}


def trained_cell(trainings: int, deviation: int, rate: float, n: int, *, worlds: int) -> dict[str, Any]:
    """The same of methods that were trained several times each, and fine-tuned with one seed."""
    rng = np.random.default_rng([trainings, deviation, round(100 * rate), n, 7])
    world = World(trainings, deviation, rate, n, trained=True)
    counts = {name: np.zeros(len(LEVELS)) for name in ("now", "before")}
    for observed in batches(rng, world, worlds):
        counts["now"] += [significant(observed, level).sum() for level in LEVELS]
        counts["before"] += [significant(observed, level, before=True).sum() for level in LEVELS]
    place = {"trainings of each": trainings, "sd of trainings in points": deviation, "rate": rate, "n": n}
    return place | {name: rates_of(count, worlds) for name, count in counts.items()}


def family_cell(seeds: int, attacks: int, correlation: float, deviation: int, n: int, *, worlds: int) -> dict[str, Any]:
    """Count how often Holm finds a difference under any of several attacks on the same victims of equal methods."""
    rng = np.random.default_rng([seeds, attacks, round(100 * correlation), deviation, n])
    found = {"now": 0, "before": 0}
    for size in sizes_of_batches(worlds):
        common = rng.normal(size=(2, size, seeds))
        any_now, any_before = np.zeros(size, bool), np.zeros(size, bool)
        for _ in range(attacks):
            moved = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=common.shape)
            observed = of_counts(draw_counts(rng, World(seeds, deviation, 0.5, n), moved))
            # Holm rejects a hypothesis, if any, where the smallest p is below 0.05 / attacks.
            any_now |= significant(observed, 0.05 / attacks)
            any_before |= significant(observed, 0.05 / attacks, before=True)
        found["now"] += int(any_now.sum())
        found["before"] += int(any_before.sum())
    place = {"seeds": seeds, "attacks": attacks, "correlation": correlation, "sd of seeds in points": deviation, "n": n}
    return place | {name: {"rate": round(k / worlds, 4), "upper": upper(k, worlds)} for name, k in found.items()}


def power_cell(
    seeds: int, deviation: int, rate: float, n: int, points: float, shared: bool, *, worlds: int
) -> dict[str, Any]:
    """Count how often a true difference is found, and by a t test over seeds, which is also given its exact level."""
    rng = np.random.default_rng([seeds, deviation, round(100 * rate), n, round(100 * points), int(shared)])
    null, real = (World(seeds, deviation, rate, n, shared, by) for by in (0.0, points))
    nothing = np.concatenate([t_of_means(observed.means) for observed in batches(rng, null, worlds)])
    ours, theirs = np.zeros(len(LEVELS)), []
    for observed in batches(rng, real, worlds):
        ours += [significant(observed, level).sum() for level in LEVELS]
        theirs.append(t_of_means(observed.means))
    t = np.concatenate(theirs)
    critical = stats.t.ppf(1 - np.array(LEVELS) / 2, seeds - 1)
    # Ties (seeds that agree exactly have an endless t) are not rejected: then the level is not exceeded.
    exact = np.maximum(critical, [np.quantile(nothing, 1 - level, method="higher") for level in LEVELS])
    place = {"seeds": seeds, "sd of seeds in points": deviation, "rate": rate, "n": n, "points": round(100 * points)}
    return place | {
        "texts shared": shared,
        "levels": LEVELS,
        "power": (ours / worlds).round(4).tolist(),
        "power of t": [round(float(np.mean(t > limit)), 4) for limit in critical],
        "errors of t": [round(float(np.mean(nothing > limit)), 4) for limit in critical],
        "power of t at its exact level": [round(float(np.mean(t > limit)), 4) for limit in exact],
    }


def t_of_means(means: Array) -> Array:
    """Return |t| of a paired t test over the means of seeds: (simulations, seeds)."""
    error = means.std(axis=1, ddof=1) / np.sqrt(means.shape[1])
    with np.errstate(all="ignore"):
        t = np.abs(means.mean(axis=1)) / error
    # Rounding must not turn an exact agreement into an error that is not 0.
    return np.where(error < 1e-12, np.where(np.abs(means.mean(axis=1)) < 1e-12, 0.0, np.inf), t)


def sizes_of_batches(worlds: int) -> Iterator[int]:
    for start in range(0, worlds, BATCH):
        yield min(BATCH, worlds - start)


def batches(rng: np.random.Generator, world: World, worlds: int) -> Iterator[Observed]:
    """Yield simulations; the first few of a cell are checked against the package."""
    check(np.random.default_rng(3), world)
    for size in sizes_of_batches(worlds):
        if world.shared or world.trained:
            for start in range(0, size, SMALL):
                yield of_texts(*draw_texts(rng, world, min(SMALL, size - start)), trained=world.trained)
        else:
            yield of_counts(draw_counts(rng, world, rng.normal(size=(2, size, world.draws))))


def draw_texts(rng: np.random.Generator, world: World, worlds: int) -> tuple[Falls, Falls]:
    """Draw which texts fall with either method: two arrays (simulations, draws, texts). All draws share the texts."""
    units = world.units
    shape = (worlds, world.draws, world.n)

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    hard = np.float32(TEXT**0.5) * normal(worlds, 1, world.n)
    sides = []
    for threshold in world.thresholds:
        moved = np.float32(units) * normal(worlds, world.draws, 1) + np.float32(threshold)
        level = moved + hard + np.float32(METHOD**0.5) * normal(worlds, 1, world.n)
        sides.append(level + np.float32(NOISE**0.5) * normal(*shape) > 0)
    return sides[0], sides[1]


def of_texts(one: Falls, other: Falls, *, trained: bool) -> Observed:
    """Return what draws show that all attacked the same texts: fine-tuning seeds, or trainings of both methods."""
    _, draws, n = one.shape
    total = draws * n
    sums = [side.sum(axis=2, dtype=np.int64) for side in (one, other)]
    by_draw = (sums[1] - sums[0]) / n
    both = (one & other).sum(axis=(1, 2)) / total
    first, second = (side.sum(axis=1) / total - both for side in sums)
    by_text = (other.sum(axis=1, dtype=np.int8) - one.sum(axis=1, dtype=np.int8)).astype(np.int64)
    scale = n / (n - 1) / total**2
    texts = scale * ((by_text**2).sum(axis=1) - by_text.sum(axis=1) ** 2 / n)
    apart = scale * ((first + second) * total - n * (by_draw**2).sum(axis=1))
    noise = np.clip(texts - (texts - apart) * draws / (draws - 1), 0, texts)
    kinds = [side / n for side in sums] if trained else [by_draw]
    parts = [means.var(axis=1, ddof=1) / draws + rounding_variance(1 / n, draws - 1) for means in kinds]
    variance, squares = sum(parts), sum(part**2 / (draws - 1) for part in parts)
    spread = VarianceLevels(texts, n - 1, variance, variance**2 / squares, noise)  # type: ignore[arg-type]
    return Observed(both, first, second, spread, n, total, by_draw)


def draw_counts(rng: np.random.Generator, world: World, moved: Array) -> Array:
    """Draw the counts of seeds that share no text: both fell, the first alone, the second alone, neither.

    Args:
        moved: what each seed adds to each method, in standard deviations: (2, simulations, seeds).
    """
    thresholds = [threshold + world.units * moved[k] for k, threshold in enumerate(world.thresholds)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    both, falls = np.zeros(moved.shape[1:]), [np.zeros(moved.shape[1:])] * 2
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        own = [special.ndtr((t + np.sqrt(TEXT) * node) / np.sqrt(METHOD + NOISE)) for t in thresholds]
        both += weight * own[0] * own[1]
        falls = [sum_ + weight * part for sum_, part in zip(falls, own, strict=True)]
    shares = np.stack([both, falls[0] - both, falls[1] - both], axis=-1).clip(0, 1)
    shares = np.concatenate([shares, 1 - shares.sum(axis=-1, keepdims=True)], axis=-1).clip(0, 1)
    return rng.multinomial(world.n, shares / shares.sum(axis=-1, keepdims=True)).astype(float)


def of_counts(counts: Array) -> Observed:
    """Return what counts show: (simulations, seeds, 4)."""
    seeds, n = counts.shape[1], counts[0, 0].sum()
    means = (counts[..., 2] - counts[..., 1]) / n
    squares = (counts[..., 1] + counts[..., 2]) - n * means**2
    texts = squares.sum(axis=1) * n / (n - 1) / (seeds * n) ** 2
    draws = means.var(axis=1, ddof=1) / seeds + rounding_variance(1 / n, seeds - 1)
    freedom = np.full(len(draws), float(seeds - 1))
    spread = VarianceLevels(texts, seeds * n - 1, draws, freedom, texts)  # type: ignore[arg-type]
    both, first, second = (counts[..., k].sum(axis=1) / (seeds * n) for k in range(3))
    return Observed(both, first, second, spread, int(seeds * n), int(seeds * n), means)


def significant(observed: Observed, level: float, *, before: bool = False) -> NDArray[np.bool_]:
    """Return where the interval with the confidence 1 - level excludes 0."""
    value = observed.second - observed.first
    unit = observed.first + observed.second - value**2
    quantile = float(stats.norm.ppf(1 - level / 2))
    with np.errstate(all="ignore"):
        texts = unit / np.maximum(observed.spread.texts, unit / observed.total)
    size = np.where(unit > 1e-12, texts, observed.texts)
    low, high = newcombe(observed.both, observed.first, observed.second, size, quantile)
    # No interval is narrower than that of texts alone, so where this one holds 0 the others do.
    seen = (low > 0) | (high < 0)
    index = np.flatnonzero(seen)
    few = VarianceLevels(*(np.broadcast_to(part, value.shape)[index] for part in observed.spread[:5]))  # type: ignore[arg-type]
    if before:
        wide = few._replace(texts=np.maximum(few.texts, unit[index] / observed.total))
        size = quantile**2 * unit[index] / squared_reach_before(wide, 1 - level)
        part = (shares[index] for shares in (observed.both, observed.first, observed.second))
        low, high = newcombe(*part, size, quantile)
        seen[index] = (low > 0) | (high < 0)
    else:
        towards = np.where(value > 0, value - low, high - value)[index]
        seen[index] = towards**2 + few.beyond_texts(1 - level) < value[index] ** 2
    return seen


def squared_reach_before(spread: VarianceLevels, confidence: float) -> Array:
    """Return the squared reach that rbench had until this file was written."""
    upper = 0.5 + confidence / 2
    half = np.asarray(spread.draw_freedom) / 2
    share = special.gammaincinv(half, 0.5 - 0.1 / half) / half
    least = spread.noise + (spread.texts - spread.noise) / (spread.draw_freedom + 1)
    excess = np.maximum(0.0, spread.draws - share * least)
    found: Array = spread.texts * special.ndtri(upper) ** 2 + excess * special.stdtrit(spread.draw_freedom, upper) ** 2
    return found


def newcombe(both: Array, first: Array, second: Array, size: Array, quantile: float) -> tuple[Array, Array]:
    """Return what `rbench.score.paired.newcombe` returns of counts that are these shares of `size`."""

    def wilson(mean: Array) -> tuple[Array, Array]:
        z2 = quantile**2
        centre = (mean + z2 / (2 * size)) / (1 + z2 / size)
        half = np.sqrt(z2 * (mean * (1 - mean) / size + z2 / (4 * size**2))) / (1 + z2 / size)
        return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)

    one, other, neither = both + first, both + second, 1 - both - first - second
    (low1, high1), (low2, high2) = wilson(one), wilson(other)
    across = both * neither - first * second
    corrected = np.where(across > 0, np.maximum(across - 1 / (2 * size), 0), across)
    margins = one * (1 - one) * other * (1 - other)
    phi = np.where(margins > 1e-12, corrected / np.sqrt(np.maximum(margins, 1e-12)), 0)
    value = other - one
    below = np.sqrt(np.maximum((other - low2) ** 2 - 2 * phi * (other - low2) * (high1 - one) + (high1 - one) ** 2, 0))
    above = np.sqrt(np.maximum((high2 - other) ** 2 - 2 * phi * (high2 - other) * (one - low1) + (one - low1) ** 2, 0))
    return value - below, value + above


def check(rng: np.random.Generator, world: World, worlds: int = 4) -> None:
    """Compare simulations with `rbench.score.paired.compare`, at each level. Raises AssertionError."""
    one, other = draw_texts(rng, world, worlds)
    draw, text = (axis.ravel() for axis in np.indices(one.shape[1:]))
    zeros, example = np.zeros_like(draw), draw * world.n + text
    groups = (zeros, draw, draw) if world.trained else (draw, zeros, zeros)
    own = text if world.shared or world.trained else example
    for k in range(worlds):
        values = (side[k].ravel().astype(float) for side in (one, other))
        found = compare(PairedSample(*values, text if world.trained else example, *groups, own), shares=True)
        pair = one[k : k + 1], other[k : k + 1]
        if world.shared or world.trained:
            arrays = of_texts(*pair, trained=world.trained)
        else:
            kinds = (pair[0] & pair[1], pair[0] > pair[1], pair[0] < pair[1], ~(pair[0] | pair[1]))
            arrays = of_counts(np.stack([kind.sum(axis=2) for kind in kinds], axis=-1).astype(float))
        assert found.p is not None
        for level in LEVELS:
            if abs(found.p - level) > 1e-6:
                assert bool(significant(arrays, level)[0]) == (found.p < level), (world, k, level, found.p)


def upper(count: float, n: int) -> float:
    """Return the upper limit of a one-sided 95% interval of a share (Clopper and Pearson)."""
    return float(f"{stats.beta.ppf(0.95, count + 1, n - count):.3g}")


def rates_of(counts: Array, worlds: int) -> dict[str, list[float]]:
    return {
        "rates": [float(f"{count / worlds:.3g}") for count in counts],
        "upper": [upper(count, worlds) for count in counts],
    }


def summary(
    levels: list[dict[str, Any]],
    trained: list[dict[str, Any]],
    families: list[dict[str, Any]],
    power: list[dict[str, Any]],
) -> dict[str, Any]:
    """Hold each table against its aims: 1.3 times the level, 6% of families, and the power of t."""
    found: dict[str, Any] = {"levels": LEVELS}
    for name, cells in (("seeds", levels), ("trainings", trained)):
        for rule in ("now", "before"):
            rates = np.array([[cell[rule]["rates"], cell[rule]["upper"]] for cell in cells])
            found[f"{name}, {rule}"] = {
                "cells": len(cells),
                "largest rate over level": (rates[:, 0] / LEVELS).max(axis=0).round(2).tolist(),
                "cells whose upper limit is above 1.3 times the level": (rates[:, 1] > 1.3 * np.array(LEVELS))
                .sum(axis=0)
                .tolist(),
            }
    for rule in ("now", "before"):
        found[f"families, {rule}"] = {
            f"{seeds} seeds, {attacks} attacks": max(
                cell[rule]["rate"] for cell in families if (cell["seeds"], cell["attacks"]) == (seeds, attacks)
            )
            for seeds, attacks in product(SEEDS, (4, 14))
        }
    gains = np.array([np.array(cell["power"]) - cell["power of t at its exact level"] for cell in power])
    found["power less that of t at its exact level"] = {
        "cells": len(power),
        "least": gains.min(axis=0).round(4).tolist(),
        "mean": gains.mean(axis=0).round(4).tolist(),
        "cells with less by more than 0.005": (gains < -0.005).sum(axis=0).tolist(),
    }
    return found


if __name__ == "__main__":
    main()
