"""Compare two encoders on the examples that both were attacked on: difference, interval, p value, what n could show.

The unit is an example. All encoders of a suite are attacked on the same ones, so a difference is taken example by
example. Where a method was trained or fine-tuned several times, these repetitions are draws of their own, and three
trainings count as three, not as three times n.

| trainings, fine-tunings | draws                                       | interval of shares         | p              |
|-------------------------|---------------------------------------------|----------------------------|----------------|
| 1 and 1                 | none                                        | Newcombe (1998), method 10 | exact McNemar  |
| 1 and several           | fine-tuning seeds' differences              | wider by the draws         | inverts it     |
| several and any         | trainings of each encoder, unpaired (Welch) | wider by the draws         | inverts it     |
| several and 1, 2 seeds+ | trainings of the one, and fine-tuning seeds | wider by the draws         | inverts it     |

p is below 0.05 exactly where the 95% interval excludes 0: what the exact test does not exclude belongs to it.

Trainings of two methods have nothing in common, so their means are compared unpaired, as Welch (1947) does. All attack
the same texts, and what a text adds in each of them does not vary between them: it is a level of its own. How levels
are joined to an interval, `score.nested_intervals` says. Means, such as queries, have a symmetric interval. Where one
encoder has a single training and several fine-tuning seeds, the seeds' differences are draws beside the other's
trainings: they hold what its own fine-tunings vary by.

Where one of the encoders has a single training (another method, or weights as published), the verdict is about these
weights and says nothing about another training. `benchmarks/coverage_of_intervals.py` simulates how often
each interval holds.

Where values of single examples are not kept, encoders are compared by counts, or by the numbers and intervals of
tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rbench.score.nested_intervals import (
    POWER,
    VarianceLevels,
    invert_interval,
    smallest_of_pairs,
    solve_for_power,
    sum_variances,
    variance_ratio_quantiles,
)
from rbench.score.statistics import CONFIDENCE, Proportion, Sample, wilson

Values = NDArray[np.float64]
Groups = NDArray[np.int64]
POWER_CLASSES = 20
"""Of draws' variance, for the power of shares."""


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
    by_rater: tuple[Mapping[str, Sequence[float]], Mapping[str, Sequence[float]]] | None = None
    """Of numbers that people gave: `one` and `other` by the answers of each rater; None for other numbers."""

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
class DifferenceEstimate:
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
    shows: Callable[[], float | None] | None = field(default=None, compare=False, repr=False)
    """Computes `smallest`, which takes longer than all else and is rarely asked for."""
    trainings: tuple[int, int] = (1, 1)
    """Number of trainings of either encoder. The verdict is about these weights of one that has a single training."""
    seeds: int = 1

    @cached_property
    def smallest(self) -> float | None:
        """The smallest true difference that a sample like this shows with a power of 0.8 at this confidence."""
        return self.shows() if self.shows is not None else None


def compare(sample: PairedSample, *, shares: bool, bound: float = 0.0) -> DifferenceEstimate:
    """Compare two encoders.

    Args:
        sample: values of both on the same examples.
        shares: whether each value is 0 or 1 (whether an attack succeeded) and the mean is a share; otherwise the values
            are numbers such as queries.
        bound: p is of the hypothesis that the true difference is this number.
    """
    n = len(sample.one)
    trainings, seeds = sample.trainings, sample.seeds
    if n == 0:
        return DifferenceEstimate(None, 0, trainings=trainings, seeds=seeds)
    discordant = tuple(int(np.sum(a > b)) for a, b in ((sample.one, sample.other), (sample.other, sample.one)))
    common: dict[str, Any] = {"n": n, "trainings": trainings, "seeds": seeds}
    if shares:
        common |= {"only_one": discordant[0], "only_other": discordant[1]}
    levels = estimate_levels(sample)
    if shares:
        return _compare_shares_of_pairs(sample, levels, discordant, bound, common)
    return _compare_means_of_pairs(float(sample.differences.mean()), levels, bound, common)


def _compare_shares_of_pairs(
    sample: PairedSample, levels: VarianceLevels, discordant: tuple[int, ...], bound: float, common: dict[str, Any]
) -> DifferenceEstimate:
    n, texts = len(sample.one), len(np.unique(sample.texts))
    both, value = float(np.sum(sample.one * sample.other)), (discordant[1] - discordant[0]) / n
    shares = (both / n, discordant[0] / n, discordant[1] / n)
    num_texts = size_of_texts(levels, shares[1] + shares[2] - value**2, texts, n)

    def limits(confidence: float) -> tuple[float, float]:
        return limits_of_difference(levels, shares, num_texts, confidence)

    low, high = limits(CONFIDENCE)
    if levels.draw_freedom or bound:
        p = invert_interval(limits, bound)
    else:
        # Newcombe's interval of few texts may exclude 0 where the exact test does not. Then 0 belongs to the interval.
        p = mcnemar(*discordant)
        if p >= 1 - CONFIDENCE:
            low, high = min(low, 0.0), max(high, 0.0)
    return DifferenceEstimate(
        value,
        low=low,
        high=high,
        p=p,
        shows=lambda: smallest_share(levels, shares, num_texts),
        **common,
    )


def size_of_texts(levels: VarianceLevels, unit: float, texts: int, n: int) -> float:
    """Return the number of texts, each with one victim, that say as much of a share, given the victims; at most n.

    Where no value varies (`unit` is 0), and of one victim, each text counts once.

    Args:
        levels: of the mean.
        unit: the variance of one observation.
        texts: the number of different texts.
        n: the number of observations.
    """
    return unit / max(levels.texts, unit / n) if unit > 0 and levels.draw_freedom else float(texts)


def limits_of_difference(
    levels: VarianceLevels, shares: Sequence[float], size: float, confidence: float
) -> tuple[float, float]:
    """Return the limits of a difference of two paired shares, `other` minus `one`, each in -1..1.

    Args:
        levels: of the difference. Draws and raters widen what texts alone give.
        shares: of pairs in which both are 1, `one` alone is, and `other` alone is.
        size: the number of texts.
        confidence: in 0..1.
    """
    both, only_one, only_other = (share * size for share in shares)
    low, high = newcombe(both, only_one, only_other, max(size - both - only_one - only_other, 0.0), confidence)
    value, added_reach = shares[2] - shares[1], levels.beyond_texts(confidence)
    reach_below, reach_above = math.sqrt((value - low) ** 2 + added_reach), math.sqrt((high - value) ** 2 + added_reach)
    return max(-1.0, value - reach_below), min(1.0, value + reach_above)


def smallest_share(levels: VarianceLevels, shares: Sequence[float], texts: float) -> float | None:
    """Return the smallest true difference of two shares that shows, in whole texts; None where none is sure to.

    Several victims show no less than as many texts with one victim each. What they show is decided by the interval: a
    difference is seen where it excludes 0.
    """
    both, only_one, only_other = shares
    # Of no discordant pair the rate is unknown, not 0: its upper limit says what could have been seen.
    rate = only_one + only_other or _wilson(0, texts, CONFIDENCE)[1]
    by_texts_alone = smallest_of_pairs(round(texts), rate)
    if by_texts_alone is None or not levels.draw_freedom:
        return by_texts_alone

    differing = max(0.0, levels.draws - levels.noise)
    explained = levels.noise / levels.texts if levels.texts else 1.0

    def of_texts(distance: float) -> float:
        return (max(rate, distance) - distance**2) / texts

    def lower_limit(distance: float, variance_ratio: float) -> float:
        """Return that of a difference that is observed to be `away`, with draws that vary `shown` times as expected."""
        discordant, text_variance = max(rate, distance), of_texts(distance)
        draws = variance_ratio * (differing + explained * text_variance)
        assumed = VarianceLevels(
            text_variance, levels.text_freedom, draws, levels.draw_freedom, explained * text_variance
        )
        # A higher rate of discordant pairs reduces both kinds of concordant pairs in proportion.
        concordant_scale = (1 - discordant) / (1 - rate) if rate < 1 else 0.0
        pairs = (both * concordant_scale, (discordant - distance) / 2, (discordant + distance) / 2)
        return limits_of_difference(assumed, pairs, texts, CONFIDENCE)[0]

    detected_from = []
    for variance_ratio in variance_ratio_quantiles(levels.draw_freedom, POWER_CLASSES).tolist():
        low, high = 0.0, 1.0
        # The lower limit rises with the difference, so halving finds where it first lies above 0.
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (low, middle) if lower_limit(middle, variance_ratio) > 0 else (middle, high)
        # If even a difference of 1 has no lower limit above 0, draws that vary this much never show one.
        detected_from.append(high if high < 1 else math.inf)

    def power(distance: float) -> float:
        error = math.sqrt(of_texts(distance) + differing) or 1e-9
        return float(np.mean(ndtr((distance - np.array(detected_from)) / error)))

    smallest = max(by_texts_alone, solve_for_power(power, 0.5, 1.0))
    if smallest > 1 - 1 / texts or power(smallest) < POWER - 0.01:
        return None
    # A difference is that of a whole number of texts, so it is rounded up to the next one.
    return math.ceil(smallest * texts - 1e-9) / texts


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
    cross_product = both * neither - only_one * only_other
    # Only a positive correlation is corrected (towards 0): it narrows the interval, and must not be overestimated.
    corrected = max(cross_product - n / 2, 0.0) if cross_product > 0 else float(cross_product)
    margins = math.prod((both + only_one, only_other + neither, both + only_other, only_one + neither))
    phi = corrected / math.sqrt(margins) if margins > 0 else 0.0
    # The lower limit of the difference pairs the second share's lower limit with the first share's upper one.
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


def _compare_means_of_pairs(
    value: float, levels: VarianceLevels, bound: float, common: dict[str, Any]
) -> DifferenceEstimate:
    if not levels.known:
        estimable = levels.text_freedom or levels.draw_freedom
        return DifferenceEstimate(value=value, p=None if value != bound or not estimable else 1.0, **common)
    low, high = levels.interval(value, CONFIDENCE)
    return DifferenceEstimate(value, low=low, high=high, p=levels.p(value - bound), shows=levels.smallest, **common)


def estimate_levels(sample: PairedSample) -> VarianceLevels:
    """Return the variance of the mean difference, by levels."""
    levels = _text_and_draw_levels(sample)
    if sample.by_rater is None:
        return levels
    from rbench.score.people import rater_variance_of_sums

    signs = zip((-1 / len(sample.one), 1 / len(sample.one)), sample.by_rater, strict=True)
    contributions = ({who: weight * np.array(values) for who, values in side.items()} for weight, side in signs)
    raters_level = rater_variance_of_sums((side, sample.texts) for side in contributions)
    return levels._replace(
        raters=raters_level.variance, rater_freedom=raters_level.freedom, rater_noise=raters_level.noise
    )


def _text_and_draw_levels(sample: PairedSample) -> VarianceLevels:
    # The four rows of the module's table: which levels are drawn decides what groups the variance is taken between.
    trained = max(sample.trainings) > 1
    texts, runs = _number_combinations(sample.texts), _number_combinations(sample.trained, sample.seed)
    if not trained and sample.seeds == 1:
        return VarianceLevels(*variance_of_groups(sample.differences, texts))
    draws, groups = [], sample.trained
    shares = bool(np.isin(sample.one, (0, 1)).all() and np.isin(sample.other, (0, 1)).all())
    if trained:
        sides = ((sample.one, sample.training), (sample.other, sample.other_training))
        draws = [variance_of_groups(values, trainings, shares=shares) for values, trainings in sides]
    if not trained or (min(sample.trainings) == 1 and sample.seeds > 1):
        draws.append(variance_of_groups(sample.differences, sample.seed, shares=shares))
        groups = sample.seed
    # Deviations of a text are summed over all victims before they are squared: a text that is hard for every victim
    # counts as one observation, not as several.
    residuals = deviations_from_victims(sample.differences, runs) / len(runs)
    by_text, by_text_and_group = (
        float(np.sum(np.bincount(index, weights=residuals) ** 2))
        for index in (texts, _number_combinations(texts, groups))
    )
    return VarianceLevels(
        by_text, int(texts.max()), *sum_variances(draws), text_noise(by_text, by_text_and_group, len(np.unique(groups)))
    )


def text_noise(by_text: float, by_text_and_group: float, groups: int) -> float:
    """Return the part of a variance between groups that texts explain, in 0..`by_text`.

    Args:
        by_text: the variance of the mean by texts, each text one unit.
        by_text_and_group: the same, each text in each group one unit. It is smaller by what a text adds in several
            groups, of which a spread between groups has nothing.
        groups: their number.
    """
    return min(max(by_text - (by_text - by_text_and_group) * groups / (groups - 1), 0.0), by_text)


def deviations_from_victims(values: Values, victims: Groups) -> Values:
    """Return each value's distance from the mean of its victim, so long that the squares' expectation is the variance.

    Args:
        values: (n,).
        victims: number of each value's victim, (n,).
    """
    sizes = np.bincount(victims)
    means = np.bincount(victims, weights=values) / np.maximum(sizes, 1)
    correction = np.sqrt(sizes / np.maximum(sizes - 1, 1))
    deviations: Values = (values - means[victims]) * correction[victims]
    return deviations


def variance_of_groups(values: Values, groups: Groups, *, shares: bool = False) -> tuple[float, int]:
    """Return the variance of the mean of groups' means, and its degrees of freedom; zeros for one group.

    Args:
        shares: whether values are 0 and 1, or differences of such.
    """
    _, index = np.unique(groups, return_inverse=True)
    sizes = np.bincount(index)
    means = np.bincount(index, weights=values) / sizes
    if len(means) == 1:
        return 0.0, 0
    # The mean of n values of 0 or 1 moves in steps of 1 / n, and draws that differ by less seem to agree.
    step = float(np.mean(1 / sizes)) if shares else 0.0
    return float(means.var(ddof=1)) / len(means) + rounding_variance(step, len(means) - 1), len(means) - 1


def rounding_variance(step: float, freedom: int) -> float:
    """Return what the variance of a mean of draws is larger by because draws are known by steps alone.

    Means of n whole numbers are multiples of 1 / n, so draws that differ may seem equal. With this summand a variance
    of 0 is as probable, of normal draws, as that all of them round to the same multiple.

    Args:
        step: between two neighbouring means of a draw.
        freedom: the number of draws less one.
    """
    return step**2 / (16 * freedom)


def _number_combinations(*keys: Groups) -> Groups:
    """Number the different combinations of the keys from 0 on."""
    return np.unique(np.stack(keys), axis=1, return_inverse=True)[1].ravel()


def number_names(names: Iterable[Hashable]) -> Groups:
    """Number the names 0, 1 ... in the order in which they come; the same name has the same number."""
    number_of: dict[Hashable, int] = {}
    return np.array([number_of.setdefault(name, len(number_of)) for name in names], dtype=np.int64)


def correct_by_holm(values: Sequence[float | None], comparisons: int = 0) -> list[float | None]:
    """Return p values of one family, corrected by Holm (1979). None stays None and does not count as a comparison.

    Args:
        comparisons: the number of comparisons that were open to be made, where it is larger: who picks the best of
            three entries has looked at three pairs, though only two are tested. Each further one counts with p = 1.

    It equals `statsmodels.stats.multitest.multipletests`, which takes a hundred times as long, and a table has many.
    """
    ordered = sorted((p, i) for i, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    # Comparisons that were open but not made count with p = 1: they only raise the factor of the others.
    num_comparisons, largest = len(ordered) + max(0, comparisons - len(values)), 0.0
    for rank, (p, i) in enumerate(ordered):
        # Corrected p values must not fall with the rank, or a larger p could be rejected where a smaller one is not.
        largest = max(largest, min(1.0, (num_comparisons - rank) * p))
        corrected[i] = largest
    return corrected


def compare_shares(one: tuple[int, int], other: tuple[int, int]) -> DifferenceEstimate:
    """Compare two shares, each a count and its denominator, as if their examples were not the same.

    The interval is Newcombe's for independent shares (1998, "Interval estimation for the difference between independent
    proportions", method 10), the p value that of Fisher's exact test. n is the smaller denominator.
    """
    from scipy import stats
    from statsmodels.stats.proportion import confint_proportions_2indep

    (first, n), (second, m) = one, other
    if not n or not m:
        return DifferenceEstimate(None, 0)
    low, high = confint_proportions_2indep(second, m, first, n, method="newcomb", alpha=1 - CONFIDENCE)
    p = stats.fisher_exact([[first, n - first], [second, m - second]]).pvalue
    return DifferenceEstimate(second / m - first / n, min(n, m), float(low), float(high), float(p))


def compare_means(one: Sample, other: Sample) -> DifferenceEstimate:
    """Compare two means by Welch's t test. It needs two values of each, and values that vary."""
    from scipy import stats

    if one.mean is None or other.mean is None:
        return DifferenceEstimate(None, 0)
    value, n = other.mean - one.mean, min(one.n, other.n)
    if n < 2:
        return DifferenceEstimate(value, n)
    variances = [(sample.deviation or 0.0) ** 2 / sample.n for sample in (one, other)]
    error = sum(variances) ** 0.5
    if not error:
        return DifferenceEstimate(value, n, p=None if value else 1.0)
    # Welch (1947): degrees of freedom of the sum of two estimated variances.
    freedom = sum(variances) ** 2 / sum(
        variance**2 / (s.n - 1) for variance, s in zip(variances, (one, other), strict=True)
    )
    half_width = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(value) / error, freedom))
    return DifferenceEstimate(value, n, value - half_width, value + half_width, p)


def average_differences(shares: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> DifferenceEstimate:
    """Compare the averages of two encoders over several tasks by the counts of each task, each counting the same.

    Args:
        shares: for each task the count and denominator of one encoder, then of the other.

    The interval is Agresti and Caffo's (2000), which adds a success and a failure to each sample, and p is that of the
    same normal statistic. n is the sum of the smaller denominators.
    """
    from scipy import stats

    if any(not n or not m for (_, n), (_, m) in shares):
        return DifferenceEstimate(None, 0)
    value = math.fsum(y / m - x / n for (x, n), (y, m) in shares) / len(shares)
    smoothed = math.fsum((y + 1) / (m + 2) - (x + 1) / (n + 2) for (x, n), (y, m) in shares) / len(shares)
    # Agresti and Caffo's interval is centred on the smoothed difference, not on `value`.
    variances = [_smoothed_variance(*first_share) + _smoothed_variance(*other) for first_share, other in shares]
    error = math.sqrt(math.fsum(variances)) / len(shares)
    half_width = float(stats.norm.ppf(0.5 + CONFIDENCE / 2)) * error
    p = float(2 * stats.norm.sf(abs(smoothed) / error))
    return DifferenceEstimate(
        value, sum(min(n, m) for (_, n), (_, m) in shares), smoothed - half_width, smoothed + half_width, p
    )


def _smoothed_variance(count: int, n: int) -> float:
    share = (count + 1) / (n + 2)
    return share * (1 - share) / (n + 2)


def compare_pooled(one: Proportion | Sample, other: Proportion | Sample) -> DifferenceEstimate:
    """Compare two shares, or two means."""
    if isinstance(one, Proportion) and isinstance(other, Proportion):
        return compare_shares(one, other)
    assert isinstance(one, Sample) and isinstance(other, Sample)
    return compare_means(one, other)


INFINITE_FREEDOM = 1e6
"""Degrees of freedom of the normal distribution, where Student's t needs a number."""


class ReportedNumber(NamedTuple):
    """A number of a table, with its interval and spreads, and its weight in a sum of such numbers."""

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
    weight: float = 1.0
    group: tuple[int, str, str] = (0, "", "")
    """The side on which it stands, its encoder and its task: numbers of one group may be of the same examples."""


def combine_reported(terms: Sequence[ReportedNumber], *, bound: float = 0.0) -> DifferenceEstimate:
    """Estimate a weighted sum of numbers of tables, and judge it against a bound. `n` is that of the first side.

    Terms have 95% intervals. Their limits are taken as normal quantiles, each on its own side, and joined by the
    squares of their distances (Zou and Donner 2008, "Construction of confidence limits about effect measures"). Numbers
    of one victim may come from the same examples. How alike they are is not known, so they are joined as if they erred
    together, which is the widest. Those of different encoders and tasks are joined as independent. Where encoders face
    each other on the same examples this is too wide as well, so a verdict that is reached holds.

    An interval does not cover differences between trainings, nor between fine-tuning seeds. Where an encoder has
    several trainings, their spread is a part of its own with Student's t, added up over all tasks of the encoder. It
    has the spread between seeds in it. With one training that of several seeds is such a part for each encoder and
    task, because each victim is fine-tuned by itself.
    """
    value = math.fsum(term.weight * term.value for term in terms)
    draws, freedom = sum_variances(_draw_variances(terms))
    texts = [_variance_of_texts(terms, upwards) for upwards in (False, True)]

    def limits(confidence: float) -> tuple[float, float]:
        side_levels = [VarianceLevels(variance, INFINITE_FREEDOM, draws, freedom) for variance in texts]
        below, above = (math.sqrt(levels.squared_reach(confidence, normal=True)) for levels in side_levels)
        return value - below, value + above

    sides = [[term for term in terms if term.group[0] == side] for side in (0, 1)]
    num_trainings = [max((term.trainings for term in side), default=1) for side in sides]
    low, high = limits(CONFIDENCE)
    return DifferenceEstimate(
        value=value,
        n=sum(term.n for term in sides[0]),
        low=low,
        high=high,
        p=invert_interval(limits, bound) if high > low else float(value == bound),
        shows=VarianceLevels(max(texts), INFINITE_FREEDOM, draws, freedom).smallest,
        trainings=(num_trainings[0], num_trainings[1]),
    )


def _variance_of_texts(terms: Iterable[ReportedNumber], upwards: bool) -> float:
    """Return the variance of the sum as the limits on one side tell it."""
    quantile = 1.959963984540054
    error_by_group: dict[tuple[int, str, str], float] = {}
    for term in terms:
        distance = term.high - term.value if upwards == (term.weight >= 0) else term.value - term.low
        error_by_group[term.group] = error_by_group.get(term.group, 0.0) + abs(term.weight) * distance / quantile
    return math.fsum(error**2 for error in error_by_group.values())


def _draw_variances(terms: Iterable[ReportedNumber]) -> list[tuple[float, float]]:
    """Return the variances of the sum by trainings, or seeds, that vary apart, with their degrees of freedom."""
    errors: dict[tuple[int | str, ...], tuple[float, int]] = {}
    for term in terms:
        group: tuple[int | str, ...] = term.group[:2]
        deviation, num_draws = term.train_sd, term.trainings
        if deviation is None:
            group, deviation, num_draws = term.group, term.seed_sd, term.seeds
        if deviation is not None and num_draws > 1:
            error, _ = errors.get(group, (0.0, 0))
            errors[group] = error + abs(term.weight) * deviation / math.sqrt(num_draws), num_draws - 1
    return [(error**2, freedom) for error, freedom in errors.values()]
