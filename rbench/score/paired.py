"""Compare two encoders on the examples that both were attacked on: difference, interval, p value, what n could show.

The unit is an example. All encoders of a suite are attacked on the same ones, so a difference is taken example by
example. Where a method was trained or fine-tuned several times, these repetitions are draws of their own, and three
trainings count as three, not as three times n.

| trainings, fine-tunings | interval                                              | p value       |
|-------------------------|-------------------------------------------------------|---------------|
| 1 and 1, shares         | Newcombe (1998), method 10, from the paired table     | exact McNemar |
| 1 and 1, means          | Student's t on the differences                        | the same t    |
| 1 and several           | Student's t on fine-tuning seeds, and shared texts    | the same t    |
| several and any         | Welch's t on the trainings, and a part for examples   | the same t    |
| several and 1, 2 seeds+ | Welch's t on the trainings, and a part for the seeds  | the same t    |

Trainings of two methods have nothing in common, so their means are compared unpaired, as Welch (1947) does. All attack
the same texts. What a text adds in every training does not vary between them, so it is added: the covariance of its
differences between trainings. So is what a text adds in all seeds that attacked it. Where one encoder has a single
training and several fine-tuning seeds, the variance of the seeds' differences takes the place of that part: it holds
what its own fine-tunings vary by, and the examples of each seed. Degrees of freedom are Satterthwaite's.

Two seeds or three trainings may agree to the last example by chance. Their spread is then unknown, and not 0: shares
are judged as one victim each, on the examples pooled; means have no interval and no p.

Where one of the encoders has a single training (another method, or weights as published), the verdict is about these
weights and says nothing about another training. `benchmarks/coverage.py` simulates how often each interval holds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.score.power import POWER, smallest_of_pairs
from rbench.score.statistics import wilson

Values = NDArray[np.float64]
Groups = NDArray[np.int64]
NOTHING = 1e-24
"""Variances below this are rounding errors of values that do not vary."""


@dataclass(frozen=True)
class PairedSample:
    """What two encoders scored on the same examples: arrays of one length, an entry a pair of attacked texts.

    Where both have several trainings, the first of one is paired with the first of the other, and so on. Where one has
    a single training, it is paired with each of the other's.
    """

    one: Values
    other: Values
    example: Groups
    """Which example; the same number in every training that attacked it."""
    seed: Groups
    """Which fine-tuning seed."""
    training: Groups
    """Which training of `one`; all equal where it has one."""
    other_training: Groups
    """Which training of `other`."""
    text: Groups | None = None
    """Which text, the same number in every seed that attacked it; None where seeds share none."""

    @property
    def differences(self) -> Values:
        """`other` minus `one`."""
        return self.other - self.one

    @property
    def trained(self) -> Groups:
        """Which training, of the encoder that has several."""
        return self.training if self.trainings[0] > 1 else self.other_training

    @property
    def texts(self) -> Groups:
        """Which text; where seeds share none, which example."""
        return self.example if self.text is None else self.text

    @property
    def trainings(self) -> tuple[int, int]:
        """The number of trainings of `one`, and of `other`."""
        return len(np.unique(self.training)), len(np.unique(self.other_training))

    @property
    def seeds(self) -> int:
        """The number of fine-tuning seeds."""
        return len(np.unique(self.seed))


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
    only_one: int | None = None
    """Shares: pairs in which `one` is 1 and `other` is 0; None where examples are not paired, and for other values."""
    only_other: int | None = None
    smallest: float | None = None
    """The smallest true difference that a sample like this shows with a power of 0.8 at this confidence."""
    trainings: tuple[int, int] = (1, 1)
    """Number of trainings of either encoder. The verdict is about these weights of one that has a single training."""
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
    trainings, seeds = sample.trainings, sample.seeds
    if n == 0:
        return Difference(None, 0, trainings=trainings, seeds=seeds)
    only = tuple(int(np.sum(a > b)) for a, b in ((sample.one, sample.other), (sample.other, sample.one)))
    common: dict[str, Any] = {"n": n, "trainings": trainings, "seeds": seeds}
    if shares:
        common |= {"only_one": only[0], "only_other": only[1]}
    if shares and ((*trainings, seeds) == (1, 1, 1) or not any(only)):
        return _one_victim_each(sample, only, confidence, common)
    variance, freedom = variance_of_mean(sample)
    if shares and variance <= NOTHING:
        return _one_victim_each(sample, only, confidence, common)
    found = _by_t(float(sample.differences.mean()), (variance, freedom), confidence, common)
    # No two shares are further apart than 1, so such a sample shows no difference with that power.
    return replace(found, smallest=None) if shares and (found.smallest or 0) > 1 else found


def _one_victim_each(
    sample: PairedSample, only: tuple[int, ...], confidence: float, common: dict[str, Any]
) -> Difference:
    # A text that several trainings or seeds attacked counts once: the counts are those of one of them, on average.
    repeats = len(sample.one) / len(np.unique(sample.texts))
    n, both, first, second = (
        count / repeats for count in (len(sample.one), float(np.sum(sample.one * sample.other)), *only)
    )
    low, high = newcombe(both, first, second, n - both - first - second, confidence)
    # Of no discordant pair the rate is unknown, not 0: its upper limit says what could have been seen.
    rate = (first + second) / n if first + second else _wilson(0, n, confidence)[1]
    return Difference(
        value=(second - first) / n,
        low=low,
        high=high,
        p=mcnemar(round(first), round(second)),
        smallest=smallest_of_pairs(round(n), rate, confidence),
        **common,
    )


def mcnemar(only_one: int, only_other: int) -> float:
    """Return the exact two-sided p value of McNemar's test (1947) for the numbers of discordant pairs."""
    from scipy import stats

    discordant = only_one + only_other
    return float(stats.binomtest(only_one, discordant).pvalue) if discordant else 1.0


def newcombe(
    both: float, only_one: float, only_other: float, neither: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a difference of paired shares, `other` minus `one`, each limit in -1..1.

    Counts may be means over trainings.

    Newcombe (1998), "Improved confidence intervals for the difference between binomial proportions based on paired
    data", method 10: Wilson's limits of both shares, joined by their correlation with a continuity correction.
    """
    n = both + only_one + only_other + neither
    first, second = (both + only_one) / n, (both + only_other) / n
    (low1, high1), (low2, high2) = (_wilson(both + only, n, confidence) for only in (only_one, only_other))
    across = both * neither - only_one * only_other
    corrected = max(across - n / 2, 0.0) if across > 0 else float(across)
    margins = math.prod((both + only_one, only_other + neither, both + only_other, only_one + neither))
    phi = corrected / math.sqrt(margins) if margins > 0 else 0.0
    down, up = second - low2, high2 - second
    other_up, other_down = high1 - first, first - low1
    value = second - first
    below = math.sqrt(max(0.0, down**2 - 2 * phi * down * other_up + other_up**2))
    above = math.sqrt(max(0.0, up**2 - 2 * phi * up * other_down + other_down**2))
    return max(-1.0, value - below), min(1.0, value + above)


def _wilson(count: float, n: float, confidence: float) -> tuple[float, float]:
    limits = wilson(count, n, confidence)
    assert limits is not None, "n is at least 1"
    return limits


def _by_t(value: float, spread: tuple[float, float], confidence: float, common: dict[str, Any]) -> Difference:
    from scipy import stats

    variance, freedom = spread
    error = math.sqrt(variance)
    if variance <= NOTHING or not freedom:
        return Difference(value=value, p=None if value or not freedom else 1.0, **common)
    reach = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    return Difference(
        value=value,
        low=value - reach,
        high=value + reach,
        p=float(2 * stats.t.sf(abs(value) / error, freedom)),
        smallest=_smallest(error, freedom, confidence),
        **common,
    )


def variance_of_mean(sample: PairedSample) -> tuple[float, float]:
    """Return the variance of the mean difference, and its degrees of freedom (0 where it cannot be estimated)."""
    if max(sample.trainings) > 1:
        single = min(sample.trainings) == 1 and sample.seeds > 1
        parts = [
            _of_means(sample.one, sample.training),
            _of_means(sample.other, sample.other_training),
            _of_seeds(sample) if single else _of_texts(sample),
        ]
    elif sample.seeds > 1:
        parts = [_of_seeds(sample)]
    else:
        parts = [_of_means(sample.differences, sample.example)]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts if freedom)
    return variance, variance**2 / spread if spread else max(freedom for _, freedom in parts)


def _of_means(values: Values, groups: Groups) -> tuple[float, int]:
    """Return the variance of the mean of groups' means, and its degrees of freedom; zeros for one group."""
    _, index = np.unique(groups, return_inverse=True)
    means = np.bincount(index, weights=values) / np.bincount(index)
    return (float(means.var(ddof=1)) / len(means), len(means) - 1) if len(means) > 1 else (0.0, 0)


def _of_seeds(sample: PairedSample) -> tuple[float, int]:
    """Return the variance of the mean by fine-tuning seeds and the texts that they share, and its degrees of freedom.

    The freedom is that of the seeds: the many texts say nothing of how well a few seeds' spread is known.
    """
    between, freedom = _of_means(sample.differences, sample.seed)
    return between + _shared(sample, sample.seed), freedom


def _of_texts(sample: PairedSample) -> tuple[float, int]:
    """Return what texts add beyond what varies between trainings, and its degrees of freedom."""
    return _shared(sample, sample.trained), len(np.unique(sample.texts)) - 1


def _shared(sample: PairedSample, groups: Groups) -> float:
    """Return what texts add to the variance of the mean beyond what varies between groups (trainings, or seeds).

    A text that several groups attacked adds something to each of their means, which does not vary between them. It is
    the mean covariance of two groups' means: that of the differences on the same text, each taken from the mean of its
    training and seed.
    """
    runs = _numbered(sample.trained, sample.seed)
    means = np.bincount(runs, weights=sample.differences) / np.bincount(runs)
    rest = (sample.differences - means[runs]) / len(runs)
    in_all, in_one = (
        float(np.sum(np.bincount(index, weights=rest) ** 2))
        for index in (_numbered(sample.texts), _numbered(sample.texts, groups))
    )
    several = len(np.unique(groups))
    return max(in_all - in_one, 0.0) * several / (several - 1)


def _numbered(*keys: Groups) -> Groups:
    """Number the different combinations of the keys from 0 on."""
    return np.unique(np.stack(keys), axis=1, return_inverse=True)[1].ravel()


def _smallest(error: float, freedom: float, confidence: float) -> float:
    from scipy import stats

    return float((stats.t.ppf(0.5 + confidence / 2, freedom) + stats.t.ppf(POWER, freedom)) * error)


def numbered(names: Iterable[Hashable]) -> Groups:
    """Number the names 0, 1 ... in the order in which they come; the same name has the same number."""
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected by Holm (1979). None stays None and does not count as a comparison.

    It equals `statsmodels.stats.multitest.multipletests`, which takes a hundred times as long, and a table has many.
    """
    ordered = sorted((p, i) for i, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, i) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p))
        corrected[i] = largest
    return corrected
