"""Compare a new run with baseline runs in one cell, where the weights are held fixed and the examples are drawn.

Values are 1 and 0, and nan where an example was not attacked. An array has a row an example, a column a fine-tuning
seed. A *pair* is one example at one seed that both runs attacked. `retraining.py` asks the other question: what
training again does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbench.score.paired import newcombe
from rbench.score.statistics import wilson

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Rise:
    """The new run minus a baseline, in one cell."""

    value: float
    n: int
    """Number of pairs, at least 1."""
    p: float
    """One-sided: how likely the examples alone make a rise as large, where there is none."""
    error: float
    """Standard error from the choice of examples, in the unit of `value`."""
    low: float
    high: float


def against_each(baseline: Sequence[Values], new: Values, confidence: float) -> Rise | None:
    """Compare the new run with each baseline run; return the comparison that speaks least for a rise.

    So a rise that is significant here is one over every baseline run, and over the one with the same weights if it is
    among them. None where no run shares a pair with the new one.
    """
    found = [rise for run in baseline if (rise := over_one(run, new, confidence)) is not None]
    return max(found, key=lambda rise: (rise.p, -rise.value)) if found else None


def over_one(run: Values, new: Values, confidence: float) -> Rise | None:
    """Compare the new run with one baseline run, pair by pair; None where they share no pair.

    p is exact: where there is no difference, the two runs' values of an example are as likely the other way round, for
    all of its seeds together. With one seed that is McNemar's exact test (1947), one-sided. The interval is Newcombe's
    with one value an example, otherwise Student's t on the examples.
    """
    both = ~(np.isnan(run) | np.isnan(new))
    n = int(both.sum())
    if not n:
        return None
    ones, others = np.where(both, run, 0), np.where(both, new, 0)
    differences = (others - ones).sum(axis=1)
    value, counts = float(differences.sum()) / n, both.sum(axis=1)
    discordant = float(np.sum(differences**2))
    # Of no discordant pair the rate is unknown, not 0: its upper limit says what could have been seen.
    error = math.sqrt(discordant or limit_of_none(n, confidence) * n) / n
    if counts.max() == 1:
        only_run, only_new = (int((differences == sign).sum()) for sign in (-1, 1))
        together = int((ones * others).sum())
        low, high = newcombe(together, only_run, only_new, n - together - only_run - only_new, confidence)
    else:
        low, high = _by_t(differences - value * counts, counts > 0, value, n, confidence)
    return Rise(value, n, sign_flip(differences), error, low, high)


def sign_flip(differences: Values) -> float:
    """Return how likely the sum of whole numbers is at least as large when each has either sign by a fair coin."""
    from scipy import stats

    sizes, counts = np.unique(np.abs(differences[differences != 0]).astype(int), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes, counts, strict=True):
        stretched = np.zeros(size * count + 1)
        stretched[::size] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        chances = np.convolve(chances, stretched)
    # `chances[i]` is that of a sum of the positive numbers of i; the whole sum is 2i minus the largest possible.
    positive = int(differences[differences > 0].sum())
    return min(1.0, float(chances[positive:].sum()))


def limit_of_none(n: int, confidence: float) -> float:
    """Return the upper limit of a share of which none of n was seen."""
    limits = wilson(0, n, confidence)
    assert limits is not None, "n is at least 1"
    return limits[1]


def _by_t(rest: Values, rows: NDArray[np.bool_], value: float, n: int, confidence: float) -> tuple[float, float]:
    """Return limits of a ratio of sums over examples by linearisation (Cochran 1977, chapter 6)."""
    from scipy import stats

    count = int(rows.sum())
    if count < 2:
        return -1.0, 1.0
    error = math.sqrt(count / (count - 1) * float(np.sum(rest[rows] ** 2))) / n
    reach = float(stats.t.ppf(0.5 + confidence / 2, count - 1)) * error
    return max(-1.0, value - reach), min(1.0, value + reach)
