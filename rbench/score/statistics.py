"""Compute means, standard deviations and confidence intervals from counts and sums.

The interval formulas are written out here, because `rbench table` must answer in under a second and importing
statsmodels or scipy.stats takes most of that. Tests compare them with both libraries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from scipy.special import betaincinv, ndtri, stdtrit

from rbench.schema import Score

CONFIDENCE = 0.95


class Sample(NamedTuple):
    """Size, mean and standard deviation of a sample of numbers.

    `deviation` is the sample standard deviation (divisor n - 1), or None if n < 2. `mean` is None if n = 0.
    """

    n: int
    mean: float | None = None
    deviation: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample:
        """Compute the statistics of `values`. Sums are exact, so the order of the values does not matter."""
        numbers = list(values)
        n = len(numbers)
        if n == 0:
            return cls(0)
        mean = math.fsum(numbers) / n
        if n == 1:
            return cls(1, mean)
        return cls(n, mean, math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / (n - 1)))

    @classmethod
    def pooled(cls, samples: Iterable[Sample]) -> Sample:
        """Return the statistics of the union of several samples."""
        known = [(s.n, s.mean, s.deviation or 0.0) for s in samples if s.mean is not None]
        n = sum(size for size, _, _ in known)
        if n == 0:
            return cls(0)
        mean = math.fsum(size * m for size, m, _ in known) / n
        if n == 1:
            return cls(1, mean)
        # The sum of squares about the common mean is that within the samples plus that of their means.
        squares = math.fsum((size - 1) * d**2 + size * (m - mean) ** 2 for size, m, d in known)
        return cls(n, mean, math.sqrt(squares / (n - 1)))

    def interval(self, confidence: float = CONFIDENCE, repeats: float = 1) -> tuple[float, float] | None:
        """Return Student's t interval of the mean, or None if n < 2. It is not clipped to the range of the values.

        Where each case is in the sample `repeats` times, n / `repeats` stands for n.
        """
        n = self.n / repeats
        if self.mean is None or self.deviation is None or n <= 1:
            return None
        half = float(stdtrit(n - 1, (1 + confidence) / 2)) * self.deviation / math.sqrt(n)
        return self.mean - half, self.mean + half


class Proportion(NamedTuple):
    """How many cases of n have something. It has what a Sample has."""

    hits: int
    n: int

    @property
    def mean(self) -> float | None:
        """The share; None if n = 0."""
        return self.hits / self.n if self.n else None

    @property
    def deviation(self) -> None:
        """A share has its deviation in it."""
        return

    def interval(self, confidence: float = CONFIDENCE, repeats: float = 1) -> tuple[float, float] | None:
        """Return Wilson's interval of the share, or None if n = 0. For `repeats` see `Sample.interval`."""
        return wilson(self.hits / repeats, self.n / repeats, confidence)


def make_score(name: str, estimate: Proportion | Sample, repeats: float = 1) -> Score:
    """Return a share or a mean as a score, with its n and its 95% interval.

    Args:
        name: of the score.
        estimate: shares are in 0..1.
        repeats: how many victims attacked an example, on average, for pooled samples that share examples. The interval
            is as wide as that of n / `repeats` examples, because it covers the choice of examples.
    """
    low, high = estimate.interval(repeats=repeats) or (None, None)
    return Score(name=name, value=estimate.mean, n=estimate.n, low=low, high=high, sd=estimate.deviation)


def wilson(count: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return Wilson's score interval (Wilson 1927) of the share `count / n`, within 0..1, or None if n = 0.

    Neither number need be whole: an effective sample size (of observations in clusters) is not.
    """
    if n == 0:
        return None
    z2 = float(ndtri((1 + confidence) / 2)) ** 2
    share = count / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # At 0 and n the limit is known exactly; rounding would miss it by a little.
    return (0.0 if count == 0 else centre - half), (1.0 if count == n else centre + half)


def share_interval(count: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the interval of the share `count / n`, within 0..1, or None if n = 0: Wilson's, corrected near 0 and 1.

    Where one of 8 texts falls, Wilson's lower limit is 2.2%, so of a true rate of 2% it covers 85%. Brown, Cai and
    DasGupta ("Interval Estimation for a Binomial Proportion", 2001, section 4.1.1) therefore take a one-sided Poisson
    limit of counts of 1 to 3. Here each limit is Wilson's or the exact one-sided one of the same level, whichever is
    further away: from counts of about ten on, and at 0 and n, that is Wilson's. Neither number need be whole.
    """
    interval = wilson(count, n, confidence)
    if interval is None:
        return None
    low, high = interval
    # The whole level on one side each, not half of it: these limits only widen Wilson's where it covers too little.
    if 0 < count < n:
        low = min(low, float(betaincinv(count, n - count + 1, 1 - confidence)))
        high = max(high, float(betaincinv(count + 1, n - count, confidence)))
    return low, high


def standard_deviation(values: Iterable[float | None]) -> float | None:
    """Return the sample standard deviation of the values that are not None; None if there are fewer than two."""
    return Sample.of(value for value in values if value is not None).deviation
