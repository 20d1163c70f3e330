"""Simulate how often intervals hold the true rate or the true difference, and what the power statement is worth.

    python benchmarks/coverage_of_intervals.py --out benchmarks/results/coverage_of_intervals.json

The world: a text falls to an attack if a sum passes a threshold. For a rate the sum has a part of the text (variance 1,
the same for every seed that attacks it), one of the seed, and one of text and seed (0.5). The seed's part is so large
that it alone moves the rate by the stated number of points at the threshold. So near 0 and 100 seeds' rates are skewed,
and the true rate, the mean over all seeds and texts, lies nearer to 50 than that of a seed of average strength. With
one seed the true rate is that of these weights. For a difference each of two methods has a threshold, and the sum has a
part of the text (0.7), one of text and method (0.21), one of the training or seed, and noise (0.3).

`before` is the interval that rbench had until this grid was made: Student's t with the seeds' degrees of freedom for
seeds and texts alike, and Wilson's or Newcombe's of single texts where the variance was 0. The method is
rbench.score.nested_intervals, called with arrays; in each cell the first simulations are checked against rbench's own
functions.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy import special, stats

from rbench.score.nested_intervals import VarianceLevels
from rbench.score.paired import PairedSample, compare, estimate_levels, mcnemar, rounding_variance, smallest_share
from rbench.tables.nested_means import JobValues, mean_interval

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
SEEDS, SIZES, RATES = (1, 2, 3, 5), (8, 40, 200), (0.02, 0.1, 0.5, 0.9, 0.98)
SHARED, DEVIATIONS = (1.0, 0.5, 0.0), (0, 3, 8)
TEXT, NOISE = 1.0, 0.5
"""Variances of a rate's world."""
DESIGNS = ((1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 1, 5), (2, 2, 1), (3, 3, 1), (5, 5, 1), (3, 3, 3), (1, 3, 1), (1, 3, 3))
"""Trainings of one method and of the other, and fine-tuning seeds of each."""
DIFFERENCES = (0.0, 0.1)


class World(NamedTuple):
    """What a cell of the differences' grid has: trainings, seeds, texts, share of them that all seeds attack."""

    one: int
    other: int
    seeds: int
    n: int
    shared: float
    rate: float
    deviation: int
    difference: float


class Drawn(NamedTuple):
    """Simulated values, 0.0 or 1.0, of both methods: (simulations, trainings, seeds, texts); the first are shared."""

    one: Array
    other: Array
    common: int

    @property
    def differences(self) -> Array:
        return self.other - self.one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--worlds", type=int, default=4000, help="simulations of each cell of rates; of differences half"
    )
    args = parser.parse_args()
    rates = [
        rate_cell(*cell, worlds=args.worlds)
        for cell in product(SEEDS, SIZES, RATES, SHARED, DEVIATIONS)
        if cell[0] > 1 or cell[3] == 1
    ]
    differences = [difference_cell(world, args.worlds // 2) for world in worlds_of_differences()]
    found = {
        "what": "coverage of 95% intervals of rates and of differences; see benchmarks/coverage_of_intervals.py",
        "command": f"python benchmarks/coverage_of_intervals.py --worlds {args.worlds} --out FILE",
        "seeds of the simulation": "numpy.random.default_rng of the cell's own numbers, as in the code",
        "standard error of a coverage of 0.95": round(float(np.sqrt(0.95 * 0.05 / args.worlds)), 4),
        "summary": summary(rates, differences),
        "normal means": {str(seeds): normal_means(seeds) for seeds in (2, 3, 5)},
        "rates": rates,
        "differences": differences,
        "power": [
            power_cell(*cell, worlds=args.worlds // 2) for cell in product((2, 3, 5), (40, 200), (0, 3), (1.0, 0.0))
        ],
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "numpy", "scipy")},
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def worlds_of_differences() -> list[World]:
    """Return the cells of the differences' grid."""
    return [
        World(*design, n, shared, rate, deviation, difference)
        for design, n, shared, rate, deviation, difference in product(
            DESIGNS, (40, 200), SHARED, (0.5, 0.85), DEVIATIONS, DIFFERENCES
        )
        if design[2] > 1 or shared == 1
    ]


def rate_cell(seeds: int, n: int, rate: float, shared: float, deviation: int, *, worlds: int) -> dict[str, Any]:
    """Simulate one cell of the rates' grid."""
    rng = np.random.default_rng([seeds, n, round(100 * rate), round(100 * shared), deviation])
    drawn, truth, own = rates(rng, seeds, n, rate, shared, deviation, worlds)
    spread, texts = spread_of_all(drawn), drawn.common + seeds * (n - drawn.common)
    check_rates(drawn)
    mean = drawn.other.mean(axis=(1, 2, 3))
    alone = wilson(mean, np.full(len(mean), float(n)))  # as tables have it of a single victim
    found = scored(alone if seeds == 1 else rate_interval(mean, spread, texts, seeds * n), truth)
    old = scored(rate_before(mean, spread, texts, seeds, n), truth)
    return {
        "seeds": seeds,
        "n": n,
        "rate": rate,
        "texts that all seeds share": shared,
        "sd of seeds in points": deviation,
        "true": round(100 * float(truth.mean()), 1),
        **found,
        "before": {name: old[name] for name in ("coverage", "width")},
        "Student's t of the seeds' own true rates": of_true_rates(own, truth),
        "samples whose seeds all lie on one side of the true rate": round(
            float(np.mean((own < truth[:, None]).all(axis=1) | (own > truth[:, None]).all(axis=1))), 3
        ),
    }


def rates(
    rng: np.random.Generator, seeds: int, n: int, rate: float, shared: float, deviation: int, worlds: int
) -> tuple[Drawn, Array, Array]:
    """Draw values, the true rate of each simulation, and each seed's own rate: (simulations, seeds)."""
    total = np.sqrt(TEXT + NOISE)
    threshold = stats.norm.ppf(rate) * total
    units = deviation / 100 / stats.norm.pdf(stats.norm.ppf(rate)) * total
    common = round(shared * n)
    moved = units * rng.normal(size=(worlds, seeds, 1))
    hard = rng.normal(size=(worlds, seeds, n)) * np.sqrt(TEXT)
    hard[:, :, :common] = hard[:, :1, :common]
    fell = threshold + moved + hard + rng.normal(size=hard.shape) * np.sqrt(NOISE) > 0
    own = stats.norm.cdf((threshold + moved[..., 0]) / total)
    truth = own[:, 0] if seeds == 1 else np.full(worlds, stats.norm.cdf(threshold / np.sqrt(total**2 + units**2)))
    values = fell[:, None].astype(float)
    return Drawn(np.zeros_like(values), values, common), truth, own


def of_true_rates(own: Array, truth: Array) -> float | None:
    """Return what Student's t covers if each seed's rate is known without error: what few skewed seeds allow."""
    seeds = own.shape[1]
    if seeds == 1 or not np.ptp(own):
        return None
    reach = stats.t.ppf(0.975, seeds - 1) * own.std(axis=1, ddof=1) / np.sqrt(seeds)
    return round(float(np.mean(np.abs(own.mean(axis=1) - truth) <= reach)), 4)


def spread_of_all(drawn: Drawn) -> VarianceLevels:
    """Return what `rbench.score.paired.estimate_levels` returns, of all simulations at once."""
    values, common = drawn.differences, drawn.common
    _, trainings, seeds, n = values.shape
    rest = (values - values.mean(axis=3, keepdims=True)) * np.sqrt(n / (n - 1)) / (trainings * seeds * n)

    def squares(*, over_trainings: bool, over_seeds: bool) -> Array:
        by_text = rest.sum(axis=1, keepdims=True) if over_trainings else rest
        both = by_text[..., :common].sum(axis=2, keepdims=True) if over_seeds else by_text[..., :common]
        found: Array = (both**2).sum(axis=(1, 2, 3)) + (by_text[..., common:] ** 2).sum(axis=(1, 2, 3))
        return found

    texts = squares(over_trainings=True, over_seeds=True)
    freedom = common + seeds * (n - common) - 1
    if trainings == seeds == 1:
        return VarianceLevels(texts, freedom)
    draws = [
        _of_means(one.mean(axis=(2, 3)), 1 / (seeds * n))
        for one in (drawn.one, drawn.other)
        if trainings > 1 < one.shape[1]
    ]
    by_seeds = trainings == 1 or (drawn.one.shape[1] == 1 and seeds > 1)
    if by_seeds:
        draws.append(_of_means(values.mean(axis=(1, 3)), 1 / (trainings * n)))
    apart = squares(over_trainings=by_seeds, over_seeds=not by_seeds)
    groups = seeds if by_seeds else trainings
    noise = np.clip(texts - (texts - apart) * groups / (groups - 1), 0, texts)
    variance = sum(part for part, _ in draws)
    squared = sum(part**2 / freedom for part, freedom in draws)
    with np.errstate(all="ignore"):
        found = np.where(squared > 0, variance**2 / squared, max(freedom for _, freedom in draws))
    return VarianceLevels(texts, freedom, variance, found, noise)


def _of_means(means: Array, step: float) -> tuple[Array, int]:
    freedom = means.shape[1] - 1
    return means.var(axis=1, ddof=1) / means.shape[1] + rounding_variance(step, freedom), freedom


def sizes(spread: VarianceLevels, unit: Array, texts: int, n: int) -> Array:
    """Return what `rbench.score.paired.effective_size` gives at 95%."""
    if not np.any(spread.draw_freedom):
        return np.full(len(unit), float(texts))
    with np.errstate(all="ignore"):
        found = spread._replace(texts=np.maximum(spread.texts, unit / n)).effective_texts(unit, 0.95)
    return np.where(unit > 1e-12, found, texts)


def rate_interval(mean: Array, spread: VarianceLevels, texts: int, n: int) -> Interval:
    size = sizes(spread, mean * (1 - mean), texts, n)
    count = mean * size
    low, high = wilson(mean, size)
    inside = (mean > 1e-12) & (mean < 1 - 1e-12)
    with np.errstate(all="ignore"):
        lowest = special.betaincinv(count, size - count + 1, 0.05)
        highest = special.betaincinv(count + 1, size - count, 0.95)
    return np.where(inside, np.minimum(low, lowest), low), np.where(inside, np.maximum(high, highest), high)


def wilson(mean: Array, size: Array) -> Interval:
    z2 = stats.norm.ppf(0.975) ** 2
    centre = (mean + z2 / (2 * size)) / (1 + z2 / size)
    half = np.sqrt(z2 * (mean * (1 - mean) / size + z2 / (4 * size**2))) / (1 + z2 / size)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def rate_before(mean: Array, spread: VarianceLevels, texts: int, seeds: int, n: int) -> Interval:
    alone = wilson(mean, np.full(len(mean), float(texts)))
    if seeds == 1:
        return alone
    variance, freedom = variance_before(spread, seeds, n, satterthwaite=False)
    reach = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    return tuple(  # type: ignore[return-value]
        np.where(variance <= 1e-24, one, np.clip(mean + sign * reach, 0, 1))
        for one, sign in zip(alone, (-1, 1), strict=True)
    )


def variance_before(spread: VarianceLevels, groups: int, n: int, *, satterthwaite: bool) -> tuple[Array, Array]:
    """Return the variance of the mean and its degrees of freedom as they were: seeds', of several trainings both's."""
    shared = (spread.texts - spread.noise) * (n - 1) / n
    variance = spread.draws + shared
    if not satterthwaite:
        return variance, np.full(len(variance), float(groups - 1))
    with np.errstate(all="ignore"):
        parts = spread.draws**2 / spread.draw_freedom + shared**2 / spread.text_freedom
        return variance, np.where(parts > 0, variance**2 / parts, spread.text_freedom)


def scored(interval: Interval, truth: Array | float) -> dict[str, float]:
    low, high = interval
    below, above = (float(np.mean(side)) for side in (truth < low - 1e-9, truth > high + 1e-9))
    return {
        "coverage": round(1 - below - above, 4),
        "true rate below": round(below, 4),
        "true rate above": round(above, 4),
        "width": round(100 * float(np.mean(high - low)), 1),
        "without an interval": round(float(np.mean(np.isnan(low))), 4),
    }


def difference_cell(world: World, worlds: int) -> dict[str, Any]:
    """Simulate one cell of the differences' grid."""
    rng = np.random.default_rng(
        [*world[:4], *(round(100 * x) for x in world[4:6]), world.deviation, round(100 * world.difference)]
    )
    drawn, truth = differences(rng, world, worlds)
    check_differences(drawn)
    interval, old, significant = difference_intervals(drawn)
    found, before = scored(interval, truth), scored(old, truth)
    return {
        "trainings": list(world[:2]),
        "seeds": world.seeds,
        "n": world.n,
        "texts that all seeds share": world.shared,
        "rate": world.rate,
        "sd of trainings or seeds in points": world.deviation,
        "difference": world.difference,
        **found,
        "significant": round(float(np.mean(significant)), 4),
        "nothing differs": bool(np.all(np.abs(truth) < 1e-12)),
        "before": {name: before[name] for name in ("coverage", "width")},
    }


def differences(rng: np.random.Generator, world: World, worlds: int) -> tuple[Drawn, Array]:
    """Draw values, and the true difference: of a single training, or of a single victim, that of these weights.

    `deviation` is between trainings where a method has several, else between fine-tuning seeds.
    """
    total = np.sqrt(0.7 + 0.21 + 0.3)
    units = world.deviation / 100 / stats.norm.pdf(stats.norm.ppf(world.rate)) * total
    common = round(world.shared * world.n)
    several = max(world.one, world.other) > 1

    def of_texts(variance: float) -> Array:
        hard = rng.normal(size=(worlds, 1, world.seeds, world.n)) * np.sqrt(variance)
        hard[..., :common] = hard[:, :, :1, :common]
        return hard

    hard, values, means = of_texts(0.7), [], []
    for rate, trainings in ((world.rate, world.one), (world.rate + world.difference, world.other)):
        alone = trainings == 1 and (several or world.seeds == 1)
        threshold = stats.norm.ppf(rate) * np.sqrt(total**2 + units**2)
        shape = (worlds, trainings, 1, 1) if several else (worlds, 1, world.seeds, 1)
        moved = units * rng.normal(size=shape)
        own = of_texts(0.21)
        noise = rng.normal(size=(worlds, trainings, world.seeds, world.n)) * np.sqrt(0.3)
        values.append((threshold + moved + hard + own + noise > 0).astype(float))
        means.append(stats.norm.cdf((threshold + moved[:, 0, 0, 0]) / total) if alone else np.full(worlds, rate))
    return Drawn(values[0], values[1], common), means[1] - means[0]


def difference_intervals(drawn: Drawn) -> tuple[Interval, Interval, NDArray[np.bool_]]:
    """Return intervals, those of before, and whether p is below 0.05."""
    one = np.broadcast_to(drawn.one, drawn.other.shape)
    axes = (1, 2, 3)
    both, first, second = (
        np.mean(part, axis=axes) for part in (one * drawn.other, one > drawn.other, one < drawn.other)
    )
    _, trainings, seeds, n = drawn.other.shape
    texts, total = drawn.common + seeds * (n - drawn.common), trainings * seeds * n
    spread, value = spread_of_all(drawn), second - first
    unit = first + second - value**2
    with np.errstate(all="ignore"):
        size = np.where(unit > 1e-12, unit / np.maximum(spread.texts, unit / total), texts)
    alone = newcombe(both, first, second, size if np.any(spread.draw_freedom) else np.full(len(value), float(texts)))
    beyond = spread.beyond_texts(0.95)
    below, above = (np.sqrt((end - value) ** 2 + beyond) for end in alone)
    found = (np.maximum(value - below, -1), np.minimum(value + above, 1))
    if trainings == seeds == 1:
        p = np.array([mcnemar(*pair) for pair in np.rint(n * np.stack([first, second], axis=1)).astype(int).tolist()])
        low, high = found  # what the exact test does not exclude belongs to the interval
        found = (np.where(p < 0.05, low, np.minimum(low, 0.0)), np.where(p < 0.05, high, np.maximum(high, 0.0)))
        return found, found, p < 0.05
    groups = seeds if trainings == 1 or (drawn.one.shape[1] == 1 and seeds > 1) else trainings
    variance, freedom = variance_before(spread, groups, n, satterthwaite=trainings > 1)
    reach = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    alone = newcombe(both, first, second, np.full(len(both), float(texts)))
    low, high = (
        np.where(variance <= 1e-24, end, value + sign * reach) for end, sign in zip(alone, (-1, 1), strict=True)
    )
    return found, (low, high), (found[0] > 0) | (found[1] < 0)


def newcombe(both: Array, first: Array, second: Array, size: Array) -> Interval:
    """Return what `rbench.score.paired.newcombe` returns of counts that are these shares of `size`."""
    one, other, neither = both + first, both + second, 1 - both - first - second
    (low1, high1), (low2, high2) = wilson(one, size), wilson(other, size)
    across = both * neither - first * second
    corrected = np.where(across > 0, np.maximum(across - 1 / (2 * size), 0), across)
    margins = one * (1 - one) * other * (1 - other)
    phi = np.where(margins > 1e-12, corrected / np.sqrt(np.maximum(margins, 1e-12)), 0)
    value = other - one
    below = np.sqrt(np.maximum((other - low2) ** 2 - 2 * phi * (other - low2) * (high1 - one) + (high1 - one) ** 2, 0))
    above = np.sqrt(np.maximum((high2 - other) ** 2 - 2 * phi * (high2 - other) * (one - low1) + (one - low1) ** 2, 0))
    return np.maximum(value - below, -1), np.minimum(value + above, 1)


def power_cell(seeds: int, n: int, deviation: int, shared: float, *, worlds: int) -> dict[str, Any]:
    """Ask how often a difference as large as the power statement says is found, with seeds of one training each."""
    world = World(1, 1, seeds, n, shared, 0.5, deviation, 0.0)
    rng = np.random.default_rng([seeds, n, deviation, round(100 * shared)])
    drawn, _ = differences(rng, world, worlds)
    mean = VarianceLevels(*(float(np.mean(part)) for part in spread_of_all(drawn)))._replace(draw_freedom=seeds - 1)
    apart = float(np.mean(drawn.one != drawn.other))
    both = float(np.mean(drawn.one * drawn.other))
    stated = smallest_share(mean, (both, apart / 2, apart / 2), apart / mean.texts)
    variance, freedom = variance_before(VarianceLevels(*map(np.atleast_1d, mean)), seeds, n, satterthwaite=False)
    quantiles = float(stats.t.ppf(0.975, freedom[0]) + stats.t.ppf(0.8, freedom[0]))
    old = quantiles * float(variance[0]) ** 0.5
    return {
        "seeds": seeds,
        "n": n,
        "sd of seeds in points": deviation,
        "texts that all seeds share": shared,
        "smallest difference": None if stated is None else round(100 * stated, 1),
        "power there": None if stated is None else found_at(world, stated, worlds),
        "before": {"smallest difference": round(100 * old, 1), "power there": found_at(world, old, worlds)},
    }


def found_at(world: World, difference: float, worlds: int) -> float | None:
    """Return how often a true difference is significant; None where no two rates differ so much."""
    if difference > 0.9:
        return None
    moved = world._replace(rate=0.5 - difference / 2, difference=difference)
    rng = np.random.default_rng([world.seeds, world.n, world.deviation, 1])
    return round(float(np.mean(difference_intervals(differences(rng, moved, worlds)[0])[2])), 3)


def least_where_seeds_agree(seeds: int, coverage: float = 0.93) -> float:
    """Return the lowest coverage that any interval has where seeds do not differ, if it covers enough where they do.

    The interval is of normal means of seeds with texts of their own. It knows the error of texts and the spread of the
    seeds' means alone, and is never narrower than texts allow. By Neyman and Pearson's lemma the best one is just so
    narrow where the spread is small, and endless elsewhere.
    """
    ratios = np.linspace(1.05, 5, 400)
    missed = 2 * stats.norm.sf(stats.norm.ppf(0.975) / ratios)
    narrow = stats.chi2.ppf(np.minimum((1 - coverage) / missed, 1 - 1e-12), seeds - 1) * ratios**2
    return round(float(1 - 0.05 * stats.chi2.cdf(narrow, seeds - 1).min()), 3)


def normal_means(seeds: int) -> dict[str, Any]:
    """Return what intervals of normal means cover, by integration, for shares of the texts' variance that seeds share.

    The first number is the coverage where seeds do not differ, the second the least over all deviations of seeds.
    """
    ratios = np.concatenate([np.linspace(1, 3, 41), [4, 5, 7, 10, 20, 50]])
    shown = stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, seeds - 1) / (seeds - 1)
    found: dict[str, Any] = {"least where seeds agree, of any interval": least_where_seeds_agree(seeds)}
    for common in (0.0, 0.5, 0.9):
        covered: dict[str, list[float]] = {"levels": [], "Satterthwaite": []}
        for ratio in ratios:
            draws = (ratio**2 - common) * shown
            spread = VarianceLevels(np.ones(len(shown)), 1e6, draws, np.full(len(shown), seeds - 1.0), 1 - common)
            variance = draws + common
            freedom = np.minimum((seeds - 1) * (variance / draws) ** 2, 1e6)
            reaches = {
                "levels": np.sqrt(spread.squared_reach(0.95)),
                "Satterthwaite": np.maximum(1.96, stats.t.ppf(0.975, freedom) * np.sqrt(variance)),
            }
            for way, reach in reaches.items():
                covered[way].append(float(np.mean(2 * stats.norm.cdf(reach / ratio) - 1)))
        found[f"{common} shared"] = {way: [round(all_[0], 3), round(min(all_), 3)] for way, all_ in covered.items()}
    return found


def check_rates(drawn: Drawn) -> None:
    """Compare the first simulations with the intervals of tables. Raises AssertionError."""
    seeds, n, common = drawn.other.shape[2], drawn.other.shape[3], drawn.common
    if seeds == 1:
        return
    for one in range(3):
        values = drawn.other[one, 0]
        names = [[f"c{i}" if i < common else f"{s}o{i}" for i in range(n)] for s in range(seeds)]
        jobs = [JobValues(s, 0, dict(zip(names[s], values[s].tolist(), strict=True))) for s in range(seeds)]
        alone = Drawn(drawn.one[one : one + 1], drawn.other[one : one + 1], common)
        mean = np.array([values.mean()])
        ours = rate_interval(mean, spread_of_all(alone), common + seeds * (n - common), seeds * n)
        theirs = mean_interval([jobs], shares=True)
        assert theirs is not None
        assert np.allclose([float(end[0]) for end in ours], theirs, atol=1e-9), (ours, theirs)


def check_differences(drawn: Drawn) -> None:
    """Compare the first simulations with `rbench.score.paired.compare`. Raises AssertionError."""
    n = drawn.other.shape[3]
    t, s, i = (axis.ravel() for axis in np.indices(drawn.other.shape[1:]))
    mine = np.minimum(t, drawn.one.shape[1] - 1)
    example = s * n + i
    text = np.where(i < drawn.common, i, example)
    for one in range(3):
        sample = PairedSample(drawn.one[one][mine, s, i], drawn.other[one].ravel(), example, s, mine, t, text)
        alone = Drawn(drawn.one[one : one + 1], drawn.other[one : one + 1], drawn.common)
        ours, theirs = spread_of_all(alone), estimate_levels(sample)
        assert np.allclose([np.squeeze(part) for part in ours], theirs), (ours, theirs)
        interval, _, significant = difference_intervals(alone)
        found = compare(sample, shares=True)
        assert np.allclose([end[0] for end in interval], (found.low, found.high), atol=1e-9)
        assert bool(significant[0]) == (found.p is not None and found.p < 0.05)


def summary(rates: list[dict[str, Any]], differences: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the cells outside of the target: at least 93%, and at most 97% of rates from 10 to 90% and 40 texts on."""
    middle = [cell for cell in rates if cell["n"] >= 40 and 0.1 <= cell["rate"] <= 0.9]
    nothing = [cell["significant"] for cell in differences if cell["nothing differs"]]
    return {
        "rates": len(rates),
        "rates below 93%": sum(cell["coverage"] < 0.93 for cell in rates),
        "rates below 93% before": sum(cell["before"]["coverage"] < 0.93 for cell in rates),
        "rates of 10 to 90% with 40 texts or more": len(middle),
        "of these above 97%": sum(cell["coverage"] > 0.97 for cell in middle),
        "of these above 97% before": sum(cell["before"]["coverage"] > 0.97 for cell in middle),
        "differences": len(differences),
        "differences below 93%": sum(cell["coverage"] < 0.93 for cell in differences),
        "differences above 97.5%": sum(cell["coverage"] > 0.975 for cell in differences),
        "differences below 93% before": sum(cell["before"]["coverage"] < 0.93 for cell in differences),
        "differences above 97.5% before": sum(cell["before"]["coverage"] > 0.975 for cell in differences),
        "cells where nothing differs": len(nothing),
        "of these with false alarms above 6%": sum(share > 0.06 for share in nothing),
        "most false alarms at 0.05": max(nothing),
    }


if __name__ == "__main__":
    main()
