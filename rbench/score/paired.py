"""Compare two encoders on the examples that both were attacked on: difference, interval, p value, what n could show.

The unit is an example. All encoders of a suite are attacked on the same ones, so a difference is taken example by
example. Where a method was trained or fine-tuned several times, examples share trainings and trainings share examples.
The variance of the mean difference then has two clusterings (Cameron, Gelbach and Miller 2011, "Robust inference with
multiway clustering"): by training (by fine-tuning seed, where there is one training) and by example.

| trainings x fine-tunings | interval                                             | p value           |
|--------------------------|------------------------------------------------------|-------------------|
| 1 x 1, shares            | Newcombe (1998), method 10, from the paired table     | exact McNemar     |
| 1 x 1, means             | Student's t on the differences                        | the same t        |
| more than one of either  | Student's t, variance clustered both ways             | the same t        |

The degrees of freedom of the last are Satterthwaite's, so three trainings count as three and not as three times n. With
1 training the interval is about these weights, and says nothing about another training of the method.
`benchmarks/coverage.py` simulates how often each interval holds the true difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.score.statistics import wilson

POWER = 0.8
"""The power at which `Difference.smallest` is stated."""

Values = NDArray[np.float64]
Groups = NDArray[np.int64]


@dataclass(frozen=True)
class PairedSample:
    """What two encoders scored on the same examples: five arrays of one length, an entry a pair of attacked texts."""

    one: Values
    other: Values
    example: Groups
    """Which example; the same number in every training and seed that attacked it."""
    training: Groups
    """Which training of either encoder; all equal where both have one."""
    seed: Groups
    """Which fine-tuning seed."""

    @property
    def differences(self) -> Values:
        """`other` minus `one`."""
        return self.other - self.one

    @property
    def levels(self) -> tuple[int, int]:
        """The number of trainings, and of fine-tuning seeds."""
        return len(np.unique(self.training)), len(np.unique(self.seed))


@dataclass(frozen=True)
class Difference:
    """`other` minus `one`, over the examples that both have a value for."""

    value: float | None
    """None where no example is common."""
    n: int
    """Number of pairs: examples, once for each training and seed."""
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """Two-sided, not corrected for other comparisons."""
    only_one: int = 0
    """Shares: pairs in which `one` is 1 and `other` is 0."""
    only_other: int = 0
    smallest: float | None = None
    """The smallest true difference that a sample like this shows with a power of 0.8 at this confidence."""
    trainings: int = 1
    seeds: int = 1

    def significant(self, alpha: float = 0.05) -> bool:
        """Whether p is below alpha."""
        return self.p is not None and self.p < alpha


def compare(sample: PairedSample, *, shares: bool, confidence: float = 0.95) -> Difference:
    """Compare two encoders.

    Args:
        sample: values of both on the same examples.
        shares: whether each value is 0 or 1 (whether an attack succeeded) and the mean is a share; otherwise the values
            are numbers such as queries.
        confidence: of the interval, in 0..1.
    """
    n = len(sample.one)
    trainings, seeds = sample.levels
    if n == 0:
        return Difference(None, 0, trainings=trainings, seeds=seeds)
    only = tuple(int(np.sum(a > b)) for a, b in ((sample.one, sample.other), (sample.other, sample.one)))
    common: dict[str, Any] = {"n": n, "trainings": trainings, "seeds": seeds}
    if shares:
        common |= {"only_one": only[0], "only_other": only[1]}
    if shares and (trainings == seeds == 1 or not any(only)):
        return _one_victim_each(sample, only, confidence, common)
    return _clustered(sample, confidence, common)


def _one_victim_each(
    sample: PairedSample, only: tuple[int, ...], confidence: float, common: dict[str, Any]
) -> Difference:
    both = int(np.sum(sample.one * sample.other))
    n, (first, second) = len(sample.one), only
    low, high = newcombe(both, first, second, n - both - first - second, confidence)
    # Of no discordant pair the rate is unknown, not 0: its upper limit says what could have been seen.
    rate = (first + second) / n if first + second else _wilson(0, n, confidence)[1]
    return Difference(
        value=(second - first) / n,
        low=low,
        high=high,
        p=mcnemar(first, second),
        smallest=_smallest(math.sqrt(rate / n), math.inf, confidence),
        **common,
    )


def mcnemar(only_one: int, only_other: int) -> float:
    """Return the exact two-sided p value of McNemar's test (1947) for the numbers of discordant pairs."""
    from scipy import stats

    discordant = only_one + only_other
    return float(stats.binomtest(only_one, discordant).pvalue) if discordant else 1.0


def newcombe(both: int, only_one: int, only_other: int, neither: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a difference of paired shares, `other` minus `one`, each limit in -1..1.

    Newcombe (1998), "Improved confidence intervals for the difference between binomial proportions based on paired
    data", method 10: Wilson's limits of both shares, joined by their correlation with a continuity correction.
    """
    n = both + only_one + only_other + neither
    first, second = (both + only_one) / n, (both + only_other) / n
    (low1, high1), (low2, high2) = (_wilson(both + only, n, confidence) for only in (only_one, only_other))
    across = both * neither - only_one * only_other
    corrected = max(across - n / 2, 0.0) if across > 0 else float(across)
    margins = math.prod((both + only_one, only_other + neither, both + only_other, only_one + neither))
    phi = corrected / math.sqrt(margins) if margins else 0.0
    down, up = second - low2, high2 - second
    other_up, other_down = high1 - first, first - low1
    value = second - first
    below = math.sqrt(max(0.0, down**2 - 2 * phi * down * other_up + other_up**2))
    above = math.sqrt(max(0.0, up**2 - 2 * phi * up * other_down + other_down**2))
    return max(-1.0, value - below), min(1.0, value + above)


def _wilson(count: int, n: int, confidence: float) -> tuple[float, float]:
    limits = wilson(count, n, confidence)
    assert limits is not None, "n is at least 1"
    return limits


def _clustered(sample: PairedSample, confidence: float, common: dict[str, Any]) -> Difference:
    from scipy import stats

    differences = sample.differences
    value = float(differences.mean())
    variance, freedom = clustered_variance(sample)
    error = math.sqrt(variance)
    if not error or not freedom:
        same = None if not freedom else value
        return Difference(value=value, low=same, high=same, p=None if same is None else float(value == 0), **common)
    reach = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    return Difference(
        value=value,
        low=value - reach,
        high=value + reach,
        p=float(2 * stats.t.sf(abs(value) / error, freedom)),
        smallest=_smallest(error, freedom, confidence),
        **common,
    )


def clustered_variance(sample: PairedSample) -> tuple[float, float]:
    """Return the variance of the mean difference, and its degrees of freedom (0 where it cannot be estimated).

    It is that of clusters by training plus that of clusters by example, minus that of their intersections, and never
    less than the larger of the two. With one training, fine-tuning seeds are the first clusters; with one of both there
    are examples alone.
    """
    trainings, seeds = sample.levels
    runs = sample.training if trainings > 1 else sample.seed
    differences = sample.differences - sample.differences.mean()
    by_example, examples = _variance(differences, sample.example)
    if trainings == seeds == 1:
        return by_example, examples - 1
    by_run, count = _variance(differences, runs)
    crossed = np.unique(np.stack([runs, sample.example]), axis=1, return_inverse=True)[1]
    both, _ = _variance(differences, crossed.ravel())
    variance = max(by_run + by_example - both, by_run, by_example)
    # The example's part beyond what is in the runs already.
    rest = max(variance - by_run, 0.0)
    spread = by_run**2 / (count - 1) + rest**2 / max(examples - 1, 1)
    return variance, variance**2 / spread if spread else 0.0


def _variance(residuals: Values, groups: Groups) -> tuple[float, int]:
    """Return the variance of the mean of values with these residuals, clustered by group, and the number of groups."""
    _, index = np.unique(groups, return_inverse=True)
    sums = np.bincount(index.ravel(), weights=residuals)
    count = len(sums)
    factor = count / (count - 1) if count > 1 else 0.0
    return factor * float(np.sum(sums**2)) / len(residuals) ** 2, count


def _smallest(error: float, freedom: float, confidence: float) -> float:
    from scipy import stats

    return float((stats.t.ppf(0.5 + confidence / 2, freedom) + stats.t.ppf(POWER, freedom)) * error)


def holm(values: list[float | None]) -> list[float | None]:
    """Return p values corrected by Holm (1979). None stays None and does not count as a comparison."""
    from statsmodels.stats.multitest import multipletests

    there = [i for i, p in enumerate(values) if p is not None]
    corrected: list[float | None] = [None] * len(values)
    if there:
        found = multipletests([values[i] for i in there], method="holm")[1]
        for i, p in zip(there, found, strict=True):
            corrected[i] = float(p)
    return corrected
