"""Judge a weighted sum of numbers of which only values and intervals are known, as tables state them.

An interval's limits are taken as normal quantiles, each on its own side, and joined by the squares of their distances
(Zou and Donner 2008, "Construction of confidence limits about effect measures"). Numbers of one victim may come from
the same examples. How alike they are is not known, so they are joined as if they erred together, which is the widest.
Those of different encoders and tasks are joined as independent. Where encoders face each other on the same examples
this is too wide as well, so a verdict that is reached holds.

An interval does not cover differences between trainings, nor between fine-tuning seeds. Where an encoder has several
trainings, their spread is a part of its own with Student's t, added up over all tasks of the encoder. It has the spread
between seeds in it. With one training that of several seeds is such a part for each encoder and task, because each
victim is fine-tuned by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from rbench.score.levels import Spread
from rbench.score.paired import Difference

ENDLESS = 1e6
"""Degrees of freedom of the normal distribution, where Student's t needs a number."""


class Term(NamedTuple):
    """One number, and its weight in the sum."""

    weight: float
    group: tuple[int, str, str]
    """The side on which it stands, its encoder and its task: numbers of one group may be of the same examples."""
    value: float
    n: int
    low: float
    high: float
    trainings: int = 1
    train_sd: float | None = None
    """The standard deviation between trainings of the encoder; None for a single one."""
    seeds: int = 1
    seed_sd: float | None = None
    """The standard deviation between fine-tuning seeds; None for a single one. Not used where `train_sd` is known."""


def combine_stated(terms: Sequence[Term], *, bound: float = 0.0, confidence: float = 0.95) -> Difference:
    """Estimate the sum, and judge it against a bound. Terms have 95% intervals. `n` is that of the first side."""
    from scipy import stats

    value = math.fsum(term.weight * term.value for term in terms)
    limits, errors, freedom = [], [], math.inf
    for upwards in (False, True):
        variance, freedom = _variance(terms, upwards)
        errors.append(math.sqrt(variance))
        reach = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * errors[-1]
        limits.append(value + reach if upwards else value - reach)
    sides = [[term for term in terms if term.group[0] == side] for side in (0, 1)]
    several = [max((term.trainings for term in side), default=1) for side in sides]
    towards = errors[bound > value]
    return Difference(
        value=value,
        n=sum(term.n for term in sides[0]),
        low=limits[0],
        high=limits[1],
        p=float(2 * stats.t.sf(abs(value - bound) / towards, freedom)) if towards else float(value == bound),
        shows=partial(Spread(max(errors) ** 2, min(freedom, ENDLESS)).smallest, confidence),
        trainings=(several[0], several[1]),
    )


def _variance(terms: Iterable[Term], upwards: bool) -> tuple[float, float]:
    """Return the variance of the sum as the limits on one side tell it, and its degrees of freedom."""
    quantile = 1.959963984540054
    together: dict[tuple[int, str, str], float] = {}
    trained: dict[tuple[int | str, ...], tuple[float, int]] = {}
    for term in terms:
        up = upwards == (term.weight >= 0)
        distance = term.high - term.value if up else term.value - term.low
        together[term.group] = together.get(term.group, 0.0) + abs(term.weight) * distance / quantile
        of: tuple[int | str, ...] = term.group[:2]
        sd, many = term.train_sd, term.trainings
        if sd is None:
            of, sd, many = term.group, term.seed_sd, term.seeds
        if sd is not None and many > 1:
            spread, _ = trained.get(of, (0.0, 0))
            trained[of] = spread + abs(term.weight) * sd / math.sqrt(many), many - 1
    parts = [(spread**2, freedom) for spread, freedom in trained.values()]
    variance = math.fsum([*(error**2 for error in together.values()), *(part for part, _ in parts)])
    spread = sum(part**2 / freedom for part, freedom in parts)
    return variance, variance**2 / spread if spread else math.inf
