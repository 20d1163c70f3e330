"""Compare two encoders by their counts alone, where the outcomes of single examples are not kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rbench.score.paired import Difference
from rbench.score.statistics import CONFIDENCE, Sample, Share


def compare_shares(one: tuple[int, int], other: tuple[int, int]) -> Difference:
    """Compare two shares, each a count and its denominator, as if their examples were not the same.

    The interval is Newcombe's for independent shares (1998, "Interval estimation for the difference between independent
    proportions", method 10), the p value that of Fisher's exact test. n is the smaller denominator.
    """
    from scipy import stats
    from statsmodels.stats.proportion import confint_proportions_2indep

    (first, n), (second, m) = one, other
    if not n or not m:
        return Difference(None, 0)
    low, high = confint_proportions_2indep(second, m, first, n, method="newcomb", alpha=1 - CONFIDENCE)
    p = stats.fisher_exact([[first, n - first], [second, m - second]]).pvalue
    return Difference(second / m - first / n, min(n, m), float(low), float(high), float(p))


def compare_means(one: Sample, other: Sample) -> Difference:
    """Compare two means by Welch's t test. It needs two values of each, and values that vary."""
    from scipy import stats

    if one.mean is None or other.mean is None:
        return Difference(None, 0)
    value, n = other.mean - one.mean, min(one.n, other.n)
    if n < 2:
        return Difference(value, n)
    parts = [(sample.deviation or 0.0) ** 2 / sample.n for sample in (one, other)]
    error = sum(parts) ** 0.5
    if not error:
        return Difference(value, n, p=None if value else 1.0)
    freedom = sum(parts) ** 2 / sum(part**2 / (s.n - 1) for part, s in zip(parts, (one, other), strict=True))
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(value) / error, freedom))
    return Difference(value, n, value - reach, value + reach, p)


def average_differences(shares: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> Difference:
    """Compare the averages of two encoders over several tasks by the counts of each task, each counting the same.

    Args:
        shares: for each task the count and denominator of one encoder, then of the other.

    The interval is Agresti and Caffo's (2000), which adds a success and a failure to each sample, and p is that of the
    same normal statistic. n is the sum of the smaller denominators.
    """
    from scipy import stats

    if any(not n or not m for (_, n), (_, m) in shares):
        return Difference(None, 0)
    value = math.fsum(y / m - x / n for (x, n), (y, m) in shares) / len(shares)
    moved = math.fsum((y + 1) / (m + 2) - (x + 1) / (n + 2) for (x, n), (y, m) in shares) / len(shares)
    parts = [_smoothed_variance(*one) + _smoothed_variance(*other) for one, other in shares]
    error = math.sqrt(math.fsum(parts)) / len(shares)
    reach = float(stats.norm.ppf(0.5 + CONFIDENCE / 2)) * error
    p = float(2 * stats.norm.sf(abs(moved) / error))
    return Difference(value, sum(min(n, m) for (_, n), (_, m) in shares), moved - reach, moved + reach, p)


def _smoothed_variance(count: int, n: int) -> float:
    share = (count + 1) / (n + 2)
    return share * (1 - share) / (n + 2)


def compare_pooled(one: Share | Sample, other: Share | Sample) -> Difference:
    """Compare two shares, or two means."""
    if isinstance(one, Share) and isinstance(other, Share):
        return compare_shares(one, other)
    assert isinstance(one, Sample) and isinstance(other, Sample)
    return compare_means(one, other)
