"""Intervals and spreads, from counts and sums alone.

The two formulas are written out rather than imported: `rbench table` must answer in under a second, and importing
statsmodels or scipy.stats takes most of one. The tests hold them equal to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from scipy.special import ndtri, stdtrit

CONFIDENCE = 0.95


class Sample(NamedTuple):
    """A sample of numbers, as far as a mean with its interval needs it.

    `deviation` is the sample standard deviation (divisor n - 1); None where n < 2. `mean` is None where n = 0.
    """

    n: int
    mean: float | None = None
    deviation: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample:
        """Summed exactly, so that the order of the values does not move the last digit."""
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
        """The sample that one gets by throwing all members of `samples` together."""
        kept = [(s.n, s.mean, s.deviation or 0.0) for s in samples if s.mean is not None]
        n = sum(size for size, _, _ in kept)
        if n == 0:
            return cls(0)
        mean = math.fsum(size * m for size, m, _ in kept) / n
        if n == 1:
            return cls(1, mean)
        squares = math.fsum((size - 1) * d**2 + size * (m - mean) ** 2 for size, m, d in kept)
        return cls(n, mean, math.sqrt(squares / (n - 1)))

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Student's t interval of the mean; None where n < 2. Not clipped to the range of the values."""
        if self.mean is None or self.deviation is None:
            return None
        half = float(stdtrit(self.n - 1, (1 + confidence) / 2)) * self.deviation / math.sqrt(self.n)
        return self.mean - half, self.mean + half


def wilson(count: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Wilson's score interval (Wilson 1927) of the share `count / n`, within 0..1; None where n = 0.

    Neither need be whole: observations in clusters count for fewer than there are.
    """
    if n == 0:
        return None
    z2 = float(ndtri((1 + confidence) / 2)) ** 2
    share = count / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return (0.0 if count == 0 else centre - half), (1.0 if count == n else centre + half)


def spread(values: Iterable[float | None]) -> float | None:
    """Sample standard deviation of what is there, for instance between seeds; None for fewer than two values."""
    return Sample.of(value for value in values if value is not None).deviation
