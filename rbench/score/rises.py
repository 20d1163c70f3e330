"""Compare a new run with a baseline run in one cell, where the weights are held fixed and the examples are drawn.

Values are 1 and 0, and nan where an example was not attacked. An array has a row an example, a column a fine-tuning
seed. A *pair* is one example at one seed that both runs attacked. `retraining.py` asks the other question: what
training again does.

Each limit of an interval is the limit of a one-sided test, and the test is the one whose p is given: the lower limit is
above 0 exactly where p is below the level of the limit, and the upper one below 0 exactly where p of a fall is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from rbench.score.statistics import wilson

Values = NDArray[np.float64]
Limits = tuple[float, float]


@dataclass(frozen=True)
class Rise:
    """The new run minus a baseline, in one cell."""

    value: float
    n: int
    """Number of pairs, at least 1."""
    texts: int
    """Number of examples that are in a pair."""
    p: float
    """One-sided: how likely the examples alone make a rise as large, where there is none."""
    error: float
    """Standard error from the choice of examples, in the unit of `value`."""
    limits: Callable[[float], Limits] = field(compare=False, repr=False)
    """The limits of the rise at a level in 0..1/2, each one-sided: the interval has the confidence 1 - 2 * level."""


def against_each(baseline: Sequence[Values], new: Values) -> Rise | None:
    """Compare the new run with each baseline run; return the comparison that speaks least for a rise.

    So a rise that is significant here is one over every baseline run, and over the one with the same weights if it is
    among them. None where no run shares a pair with the new one.
    """
    found = [rise for run in baseline if (rise := over_one(run, new)) is not None]
    return max(found, key=lambda rise: (rise.p, -rise.value)) if found else None


def over_one(run: Values, new: Values) -> Rise | None:
    """Compare the new run with one baseline run, pair by pair; None where they share no pair.

    p is exact: where there is no difference, the two runs' values of an example are as likely the other way round, for
    all of its seeds together. With one seed that is McNemar's exact test (1947), one-sided. The limits ask the same of
    a coin that is not fair (`_signs`).
    """
    both = ~(np.isnan(run) | np.isnan(new))
    n, texts = int(both.sum()), int(both.any(axis=1).sum())
    if not n:
        return None
    differences = np.where(both, new - run, 0).sum(axis=1)
    differences = differences[differences != 0].astype(int)
    # Of no discordant pair the rate is unknown, not 0: its upper limit says what could have been seen.
    error = math.sqrt(float(np.sum(differences**2)) or limit_of(0, texts, 0.025) * n) / n
    limits = partial(_signs, differences, n, texts)
    return Rise(float(differences.sum()) / n, n, texts, sign_flip(differences), error, limits)


def over_mean(rest: Values, there: NDArray[np.bool_], size: NDArray[np.int64]) -> Rise:
    """Compare the new run with the mean of several baseline runs, by a Cochran-Mantel-Haenszel test.

    Its strata are the examples. Where nothing differs, the new run's values of an example are as likely those of any
    other run, for all of its seeds together.

    Args:
        rest: runs x examples x seeds, the new run first: each value less the mean of all runs, 0 where there is none.
        there: of the same shape, whether the run has the value and another run has it too.
        size: by pair, how many runs have it.
    """
    new = there[0]
    n, texts = int(new.sum()), int(new.any(axis=1).sum())
    # The mean holds the new run itself, so a rise over the others is larger by k + 1 over k.
    larger = np.where(new, size / np.maximum(size - 1, 1), 0.0)
    rows = (rest * larger).sum(axis=2)
    runs = there.any(axis=2).sum(axis=0)
    variance = float(np.sum((rows**2).sum(axis=0) / np.maximum(runs, 1)))
    correction, excess = float(larger[new].mean()) / 2, float(rows[0].sum())
    p = float(ndtr((correction - excess) / math.sqrt(variance))) if variance else 1.0
    error = math.sqrt(variance or limit_of(0, texts, 0.025) * n) / n

    def limits(level: float) -> Limits:
        if not variance:
            return -limit_of(0, texts, level), limit_of(0, texts, level)
        reach = correction - float(ndtri(level)) * math.sqrt(variance)
        return (excess - reach) / n, (excess + reach) / n

    return Rise(excess / n, n, texts, p, error, limits)


def sign_flip(differences: NDArray[np.int64], chance: float = 0.5) -> float:
    """Return how likely the sum of whole numbers is at least as large when each is positive with this chance."""
    from scipy import stats

    sizes, counts = np.unique(np.abs(differences[differences != 0]).astype(int), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes, counts, strict=True):
        stretched = np.zeros(size * count + 1)
        stretched[::size] = stats.binom.pmf(np.arange(count + 1), count, chance)
        chances = np.convolve(chances, stretched)
    # `chances[i]` is that of a sum of the positive numbers of i; the whole sum is 2i minus the largest possible.
    positive = int(differences[differences > 0].sum())
    return min(1.0, float(chances[positive:].sum()))


def limit_of(count: int, n: int, level: float) -> float:
    """Return the upper limit of a share of which `count` of n were seen, one-sided (Wilson 1927)."""
    limits = wilson(count, n, 1 - 2 * level)
    assert limits is not None, "n is at least 1"
    return limits[1]


def _signs(differences: NDArray[np.int64], n: int, texts: int, level: float) -> Limits:
    """Return the limits of a rise at a level, each of the sign test.

    A rise is the share of pairs that differ, times how much more often they differ for the worse. The test gives the
    limits of the second (Clopper and Pearson 1934, where each example has one pair). The first adds its own uncertainty
    to a limit on the far side of 0, as in Newcombe's intervals: with no pair that differs the limit is that of a share
    of which none was seen.
    """
    moved, share = len(differences), float(np.abs(differences).sum()) / n
    most = limit_of(moved, texts, level) * (share * texts / moved if moved else 1.0)
    value = float(differences.sum()) / n
    below, above = (_far(sign * value, share, most, _tilt(sign * differences, level)) for sign in (-1, 1))
    return -below, above


def _far(value: float, share: float, most: float, tilt: float) -> float:
    """Return the upper limit of a rise: `tilt` is that of the difference of the chances to get worse and better."""
    if tilt <= 0:
        return share * tilt
    return min(1.0, value + math.hypot(share * tilt - value, tilt * (most - share)))


def _tilt(differences: NDArray[np.int64], level: float) -> float:
    """Return the upper limit, one-sided, of the chance of a positive difference less that of a negative one."""
    negative = int((differences < 0).sum())
    if not negative:
        return 1.0
    sizes = np.unique(np.abs(differences))
    if len(sizes) == 1:
        chance = float(betaincinv(negative, len(differences) - negative + 1, level))
    else:
        from scipy.optimize import brentq

        chance = float(brentq(lambda chance: sign_flip(-differences, chance) - level, 0.0, 1.0, xtol=1e-12))
    return 1 - 2 * chance
