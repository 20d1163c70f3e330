"""Compare a new run with three or more baseline runs of other weights: does it differ by more than training again does?

Arrays are those of `rises.py`. `Spread` is one cell. `Pool` knows the spread of all cells and gives p values.

One cell has k - 1 degrees of freedom, too few for a correction for many cells. So the variance that a rise is measured
by is the cell's own plus the one pooled over all cells. (Of a single cell it is the cell's own: the usual t test for a
new draw.) The pooled one alone would do if all victims moved as much when they are trained again. Where only some of
them move, it is too small for those that do; the cell's own part keeps false alarms near alpha there.

Cells that share a victim move together. If all C cells are independent, they are C measurements of the variance, and C
chances of a false alarm. If all move as one, they are one measurement and one chance. Between these they are m groups.
So p is the largest over m = 1..C of m * P(t > T) with m * (k - 1) degrees of freedom. Each metric
moves by another amount, so it has a pool of its own, and p is multiplied by the number of metrics. Of several cells it
is multiplied by the square root of that number, since their variance, the own plus the pooled one, is up to twice too
large already. All this is no theorem but a choice by simulation: `benchmarks/calibration.py` has the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import stdtr, stdtrit

from rbench.score.power import POWER
from rbench.score.rises import Rise, Values, over_mean

FEWEST = 3
"""The number of baseline runs from which their spread is used."""


@dataclass(frozen=True)
class Spread:
    """The new run beside three or more baseline runs, in one cell."""

    rise: Rise
    """Over their mean. Its limits, error and p speak of the examples alone."""
    deviation: float
    """Standard deviation between the baseline runs' values, in the unit of the rise (divisor k - 1)."""
    runs: int
    """The number k of baseline runs."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom of `deviation`."""
        return self.runs - 1


@dataclass(frozen=True)
class Pool:
    """The spread of all cells of a check."""

    variance: float
    """Pooled over the cells, weighted by degrees of freedom."""
    cells: int
    metrics: int
    """How many metrics the check judges; p is corrected for all."""

    @classmethod
    def of(cls, spreads: Sequence[Spread], metrics: int = 1) -> Pool:
        """Pool the variances of the cells of one metric."""
        freedom = sum(spread.freedom for spread in spreads)
        squares = math.fsum(spread.freedom * spread.deviation**2 for spread in spreads)
        return cls(squares / freedom if freedom else 0.0, len(spreads), metrics)

    @property
    def chances(self) -> float:
        """By how much p is multiplied because a check judges several metrics."""
        return self.metrics if self.cells == 1 else math.sqrt(self.metrics)

    def error(self, spread: Spread) -> float:
        """Return the standard error of a cell's rise, of a new draw over the mean of k."""
        others = self.variance * (1 - 1 / self.cells)
        return math.sqrt((spread.deviation**2 + others) * (1 + 1 / spread.runs))

    def p(self, spread: Spread) -> float:
        """Return the p value of one cell, not corrected: all cells measure the deviation as one."""
        return self._p(spread, 1)

    def corrected(self, spread: Spread) -> float:
        """Return the p value of one cell, corrected for all rows."""
        return min(1.0, self.chances * self._p(spread, self.cells))

    def _p(self, spread: Spread, most: int) -> float:
        error = self.error(spread)
        if not error:
            return 0.0 if spread.rise.value > 0 else 1.0
        groups = np.arange(1, most + 1)
        tails = groups * stdtr(groups * spread.freedom, -spread.rise.value / error)
        return float(min(1.0, tails.max()))

    def critical(self, spread: Spread, alpha: float) -> float:
        """Return by how many standard errors a rise must exceed 0 so that its corrected p is below alpha."""
        return _critical(self.cells, spread.freedom, alpha / self.chances)[0]

    def shown(self, spread: Spread, alpha: float) -> float:
        """Return how many standard errors a true rise must have to be significant with a power of 0.8."""
        critical, groups = _critical(self.cells, spread.freedom, alpha / self.chances)
        return critical + float(stdtrit(groups * spread.freedom, POWER))


@cache
def _critical(cells: int, freedom: int, alpha: float) -> tuple[float, int]:
    """Return the critical value, and the number of groups that gives it."""
    groups = np.arange(1, cells + 1)
    values = stdtrit(groups * freedom, 1 - alpha / groups)
    return float(values.max()), int(groups[values.argmax()])


def against_mean(baseline: Sequence[Values], new: Values) -> Spread | None:
    """Compare the new run with the mean of baseline runs; None unless three of them share examples.

    Each value is taken from the mean of all runs that attacked the same example with the same seed. So runs whose
    victims skipped different examples can be compared. Where none did, that is each run's plain share less a constant.
    """
    runs = np.stack([new, *baseline])
    there = ~np.isnan(runs)
    size = there.sum(axis=0)
    shared = there & (size > 1)
    counts = shared.sum(axis=(1, 2))
    if not counts[0] or (counts[1:] > 0).sum() < FEWEST:
        return None
    means = np.where(shared, runs, 0.0).sum(axis=0) / np.maximum(size, 1)
    rest = np.where(shared, runs - means, 0.0)
    values = rest[1:].sum(axis=(1, 2))[counts[1:] > 0] / counts[1:][counts[1:] > 0]
    return Spread(over_mean(rest, shared, size), float(values.std(ddof=1)), len(values))
