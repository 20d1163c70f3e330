"""Judge whether a new run is worse than baseline runs, row by row: the statistics behind `rbench check`.

A row is one metric of one cell: clean accuracy, accuracy under attack or ASR. It fails if the metric got worse by more
than the tolerance (a *rise*; of accuracies it is a fall) and the rise is significant after correction for the number
of rows. All tests are one-sided, because a gate asks only whether something got worse. What a rise must exceed depends
on what differs between the runs:

| the new weights                      | the rise must be larger than                     | verdict on such a rise |
|--------------------------------------|--------------------------------------------------|------------------------|
| those of a baseline run              | what the choice of examples explains             | failed                 |
| others, one or two baseline runs     | the same                                         | unexplained            |
| others, and the question is of them  | the same                                         | failed                 |
| others, three or more baseline runs  | that, and what training again explains           | failed                 |

*Examples.* `BaselineDelta` compares on the same examples with fixed weights. p values are corrected by Holm (1979),
over all rows of the check. Values are 1 and 0, and nan where an example was not attacked. An array has a row an
example, a column a fine-tuning seed. A *pair* is one example at one seed that both runs attacked.

*Training again.* A t test compares the rise with the spread between the k baseline runs. `PooledSpread` says how the
spread is pooled over the cells of a metric, and how p is corrected. A row's p is the larger of the two tests'.

*Intervals.* Each limit is that of the same one-sided test, at the level at which Holm's procedure tests the row. So the
lower limit is above 0 exactly where the corrected p is below alpha, and the upper one below 0 where that of a fall is.

*Unexplained* is a significant rise with other weights and one or two baseline runs: the row is worse, and the change or
the training may have caused it.

*Undecided* is a row that is neither, and of which the check cannot say that it is well:

- Too few texts: if 30% of them (`GRAVE_SHARE`) got worse and none better, that would not be significant.
- A rise of more than 30 points that is not significant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri, stdtr, stdtrit

from rbench.gate.raters import RaterRise, RaterScores, compare_rater_scores, deviation_between_runs
from rbench.score.nested_intervals import POWER, detectable_errors
from rbench.score.paired import correct_by_holm
from rbench.score.statistics import wilson

GateVerdict = Literal["passed", "failed", "unexplained", "undecided"]
ROUNDING = 1e-9
"""Rises of exactly the tolerance pass, whatever the last digits of their sums."""
GRAVE_SHARE = 0.3
"""A row must be able to show that this share of its texts got worse, and no row that is worse by more passes."""


@dataclass(frozen=True)
class GateSample:
    """One row: what baseline runs and the new run scored on the same examples.

    Every array has a row an example and a column a fine-tuning seed. An entry is 1, 0, or nan where the example does
    not count: skipped, errored or absent.
    """

    baseline: tuple[NDArray[np.float64], ...]
    """One array a baseline run. The runs must have different weights: copies of one run have no spread."""
    new: NDArray[np.float64]
    same_weights: bool
    """Whether the new victims are those of a baseline run."""
    tolerance: float = 0.02
    """The rise that is allowed, a fraction in 0..1."""
    higher_is_worse: bool = True
    """Whether a rise of the metric is bad (ASR), or a fall (accuracies)."""
    known_by: str = "weights"
    """By what victims are known to be those of a baseline run, in words that follow `the same`."""
    metric: str = "asr"
    """Trainings differ by another spread in each metric, so it is pooled over the cells of one."""
    told: tuple[RaterScores, ...] = ()
    """Of a number that people gave: what they told of each baseline run, and last of the new one. Then entries of the
    arrays are any numbers."""


@dataclass(frozen=True)
class GateRow:
    """The verdict on one row. A rise is a rise of the metric, or its fall where lower is worse; a fraction."""

    rise: float | None = None
    """None where the runs share no example."""
    low: float | None = None
    """Lower limit of the rise, one-sided, at the level at which the row is tested: above 0 exactly if it is
    significant."""
    high: float | None = None
    """Upper limit, one-sided, at the same level."""
    p: float | None = None
    """One-sided, not corrected."""
    p_holm: float | None = None
    """One-sided, corrected for all rows."""
    n: int = 0
    """Number of pairs: one example at one fine-tuning seed that counts in the new run and in the baseline."""
    spread: float | None = None
    """Standard deviation between three or more baseline runs; None for fewer."""
    verdict: GateVerdict = "undecided"
    because: str = "no text counts in both the new run and the baseline"
    """One sentence for the reader."""
    smallest: float | None = None
    """The smallest true rise that is significant, and larger than the tolerance, with a power of 0.8."""


def texts_needed(rows: int, alpha: float, tolerance: float = 0.0) -> int:
    """Return how many texts a row needs so that it can fail: if GRAVE of them got worse and none better.

    Where the tolerance is more than GRAVE, it takes its place.

    Args:
        rows: of the check.
    """
    worse = math.floor(math.log2(rows / alpha)) + 1  # the exact test's p is then below alpha / rows
    return math.ceil(worse / max(GRAVE_SHARE, tolerance) - ROUNDING)


@dataclass(frozen=True)
class JudgingRules:
    """What `judge` was asked."""

    alpha: float
    about_these_weights: bool
    rows: int
    """Number of rows that can be compared."""


def judge(samples: Sequence[GateSample], *, alpha: float, about_these_weights: bool) -> tuple[GateRow, ...]:
    """Judge all rows of a check together, in their order.

    Args:
        samples: one a row.
        alpha: the chance of a false alarm in the whole check, in 0..1/2, both ends excluded.
        about_these_weights: whether the question is about the new weights, not about the change that made them.

    Raises:
        ValueError: arrays hold other values than 0, 1 and nan.
    """
    for sample in samples:
        _check_sample(sample)
    rises = [_compare_sample(sample, about_these_weights) for sample in samples]
    rules = JudgingRules(alpha, about_these_weights, sum(rise is not None for rise in rises))
    # Holm corrects the choice of examples over all rows. The spread between trainings is pooled by metric, and has a
    # correction of its own (`PooledSpread`).
    by_examples = correct_by_holm([rise.p if rise else None for rise in rises])
    spreads: dict[str, list[BaselineDelta]] = {}
    for sample, rise in zip(samples, rises, strict=True):
        if rise is not None and rise.runs:
            spreads.setdefault(sample.metric, []).append(rise)
    pools = {metric: PooledSpread.of(rises_of_metric, len(spreads)) for metric, rises_of_metric in spreads.items()}
    return tuple(
        GateRow() if rise is None or p is None else _judge_row(sample, rise, p, pools.get(sample.metric), rules)
        for sample, rise, p in zip(samples, rises, by_examples, strict=True)
    )


def _check_sample(sample: GateSample) -> None:
    """Raise ValueError where a metric, which may be a user's, has other values than a share of texts has."""
    arrays = (sample.new, *sample.baseline)
    if not sample.told and not all(((array == 0) | (array == 1) | np.isnan(array)).all() for array in arrays):
        raise ValueError("values must be 0, 1 or nan")


def _compare_sample(sample: GateSample, about_these_weights: bool) -> BaselineDelta | None:
    if sample.told:
        return _compare_people(sample, about_these_weights)
    # 1 - array turns accuracies into error rates, so that from here on a rise is always for the worse.
    new, *baseline = (array if sample.higher_is_worse else 1 - array for array in (sample.new, *sample.baseline))
    # Only with other weights, and a question about the change, does it matter what training again does.
    rise = None if sample.same_weights or about_these_weights else rise_over_mean(baseline, new)
    return rise or least_rise_over_each(baseline, new)


def _compare_people(sample: GateSample, about_these_weights: bool) -> BaselineDelta | None:
    """Return the rise of a number that people gave: over the mean of three or more runs, or the least over each."""
    *baseline, new = sample.told
    direction = {"higher_is_worse": sample.higher_is_worse}
    if not (sample.same_weights or about_these_weights or len(baseline) < FEWEST_RUNS):
        people_rise = compare_rater_scores(baseline, new, **direction)
        return people_rise and replace(
            _as_baseline_delta(people_rise), deviation=deviation_between_runs(baseline, new), runs=len(baseline)
        )
    rises = [
        _as_baseline_delta(rise_over_one)
        for run in baseline
        if (rise_over_one := compare_rater_scores([run], new, **direction)) is not None
    ]
    return max(rises, key=lambda rise: (rise.p, -rise.value)) if rises else None


def _as_baseline_delta(people_rise: RaterRise) -> BaselineDelta:
    return BaselineDelta(
        people_rise.value, people_rise.n, people_rise.texts, people_rise.p, people_rise.error, people_rise.limits
    )


def _judge_row(
    sample: GateSample, rise: BaselineDelta, by_examples: float, pool: PooledSpread | None, rules: JudgingRules
) -> GateRow:
    """Test and judge a row. `by_examples` is the corrected p of the choice of examples alone."""
    power = float(ndtri(POWER))
    # (z of the level + z of the power) standard errors, at the strictest level that Holm may ask of a row.
    smallest = (float(-ndtri(rules.alpha / rules.rows)) + power) * rise.error
    p, corrected, error = rise.p, by_examples, rise.error
    # Holm multiplies the p of each row by a factor of its own. The row is rejected where p is below alpha / factor, so
    # this is the level at which its limits agree with the test.
    level = rules.alpha * (rise.p / by_examples if by_examples else 1 / rules.rows)
    low, high = rise.limits(level)
    if rise.runs and pool is not None:
        # Both tests must reject: the choice of examples, and the spread between trainings.
        p, corrected = max(p, pool.p(rise)), max(corrected, pool.corrected_p(rise))
        error = pool.error(rise)
        smallest = max(smallest, pool.shown(rise, rules.alpha) * error)
        half_width = pool.critical_value(rise, rules.alpha) * error
        low, high = min(low, rise.value - half_width), max(high, rise.value + half_width)
    smallest = max(smallest, sample.tolerance + power * max(error, rise.error))
    # An interval holds its estimate, also where limits of two tests were joined.
    low, high = max(-1.0, min(low, rise.value)), min(1.0, max(high, rise.value))
    if corrected >= rules.alpha:
        low = min(low, 0.0)  # a p of exactly alpha, whatever the last digit of the limit
    unclear = f"{rise.n} pairs of examples do not tell this from chance"
    if rise.runs and by_examples < rules.alpha:
        unclear = f"training again may do as much ({rise.runs} baseline runs, standard error {100 * error:.1f} points)"
    verdict, because = _decide(sample, rise, corrected, unclear, rules)
    return GateRow(rise.value, low, high, p, corrected, rise.n, rise.deviation, verdict, because, smallest)


def _decide(
    sample: GateSample, rise: BaselineDelta, corrected: float, unclear: str, rules: JudgingRules
) -> tuple[GateVerdict, str]:
    """Return the verdict on a row and why. `unclear` says what leaves a rise that is not significant open."""
    value, tolerance, texts = rise.value, sample.tolerance, rise.texts
    if value:
        # `value` is positive where the metric got worse, whichever way that is.
        direction = "rose" if (value > 0) == sample.higher_is_worse else "fell"
        what_happened = f"{direction} by {100 * abs(value):.1f} points"
    else:
        what_happened = "did not change"
    p = f"corrected p {corrected:.2g}"
    worse = value > tolerance + ROUNDING
    # A significant rise is decided first: too few texts excuse a rise that cannot be seen, not one that can.
    if worse and corrected < rules.alpha:
        return _decide_significant(sample, rise, rules, what_happened, p)
    if texts < (needed_texts := texts_needed(rules.rows, rules.alpha, tolerance)):
        need = (
            f"a check of {rules.rows} rows needs {needed_texts}" if rules.rows > 1 else f"a check needs {needed_texts}"
        )
        what = "text counts in both runs" if texts == 1 else "texts count in both runs"
        return (
            "undecided",
            f"{what_happened}, but only {texts} {what}, and {need} to see {100 * GRAVE_SHARE:g}% of them get worse",
        )
    if sample.told and (people_error := -float(ndtri(rules.alpha / rules.rows)) * rise.error) > max(
        GRAVE_SHARE, tolerance
    ):
        return (
            "undecided",
            f"{what_happened}, but what people said reaches {100 * people_error:.0f} points: have more texts judged",
        )
    if not worse:
        return "passed", what_happened + (f", within the tolerance of {100 * tolerance:.1f}" if value > 0 else "")
    if value > max(GRAVE_SHARE, tolerance) + ROUNDING:
        return "undecided", f"{what_happened}, which is too much to pass, but {unclear} ({p})"
    return "passed", f"{what_happened}, but {unclear} ({p})"


def _decide_significant(
    sample: GateSample, rise: BaselineDelta, rules: JudgingRules, moved: str, p: str
) -> tuple[GateVerdict, str]:
    """Decide on a rise that is significant."""
    if rise.runs:
        return "failed", f"{moved}, more than training again explains ({p})"
    if sample.same_weights:
        return "failed", f"{moved} with the same {sample.known_by} ({p})"
    if rules.about_these_weights:
        return "failed", f"{moved}: these weights are worse ({p})"
    count = sum(not np.isnan(run + sample.new).all() for run in sample.baseline)
    runs = "one baseline run" if count == 1 else f"{count} baseline runs"
    because = f"{moved}: these weights are worse ({p}), but {runs} cannot tell whether the change made them so"
    return "unexplained", because


Values = NDArray[np.float64]
RiseLimits = tuple[float, float]


@dataclass(frozen=True)
class BaselineDelta:
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
    limits: Callable[[float], RiseLimits] = field(compare=False, repr=False)
    """The limits of the rise at a level in 0..1/2, each one-sided: the interval has the confidence 1 - 2 * level."""
    deviation: float | None = None
    """Standard deviation between the values of three or more baseline runs, in the unit of `value` (divisor k - 1).
    `value` is over their mean then; p, limits and error speak of the examples alone."""
    runs: int = 0
    """The number k of these baseline runs; 0 where the new run is compared with a single one."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom of `deviation`."""
        return self.runs - 1


def least_rise_over_each(baseline: Sequence[Values], new: Values) -> BaselineDelta | None:
    """Compare the new run with each baseline run; return the comparison that speaks least for a rise.

    So a rise that is significant here is one over every baseline run, and over the one with the same weights if it is
    among them. None where no run shares a pair with the new one.
    """
    rises = [rise for run in baseline if (rise := rise_over_run(run, new)) is not None]
    return max(rises, key=lambda rise: (rise.p, -rise.value)) if rises else None


def rise_over_run(run: Values, new: Values) -> BaselineDelta | None:
    """Compare the new run with one baseline run, pair by pair; None where they share no pair.

    p is exact: where there is no difference, the two runs' values of an example are as likely the other way round, for
    all of its seeds together. With one seed that is McNemar's exact test (1947), one-sided. The limits ask the same of
    a coin that is not fair (`_sign_test_limits`).
    """
    in_both = ~(np.isnan(run) | np.isnan(new))
    pair_count, texts = int(in_both.sum()), int(in_both.any(axis=1).sum())
    if not pair_count:
        return None
    # One sum an example: its seeds share the text, so under the null hypothesis they change sign together.
    differences = np.where(in_both, new - run, 0).sum(axis=1)
    differences = differences[differences != 0].astype(int)
    # Of no discordant pair the rate is unknown, not 0: its upper limit says what could have been seen.
    error = math.sqrt(float(np.sum(differences**2)) or upper_limit_of_share(0, texts, 0.025) * pair_count) / pair_count
    limits = partial(_sign_test_limits, differences, pair_count, texts)
    return BaselineDelta(
        float(differences.sum()) / pair_count, pair_count, texts, sign_flip_p_value(differences), error, limits
    )


def mantel_haenszel_rise(
    deviations: Values, is_shared: NDArray[np.bool_], runs_with_pair: NDArray[np.int64]
) -> BaselineDelta:
    """Compare the new run with the mean of several baseline runs, by a Cochran-Mantel-Haenszel test.

    Its strata are the examples. Where nothing differs, the new run's values of an example are as likely those of any
    other run, for all of its seeds together.

    Args:
        deviations: runs x examples x seeds, the new run first: each value less the mean of all runs, 0 where there is
            none.
        is_shared: of the same shape, whether the run has the value and another run has it too.
        runs_with_pair: by pair, how many runs have it.
    """
    new = is_shared[0]
    n, texts = int(new.sum()), int(new.any(axis=1).sum())
    # The mean holds the new run itself, so a rise over the others is larger by k + 1 over k.
    scale = np.where(new, runs_with_pair / np.maximum(runs_with_pair - 1, 1), 0.0)
    rows = (deviations * scale).sum(axis=2)
    runs = is_shared.any(axis=2).sum(axis=0)
    variance = float(np.sum((rows**2).sum(axis=0) / np.maximum(runs, 1)))
    # Continuity correction: half of the step by which a single pair changes the sum.
    correction, excess = float(scale[new].mean()) / 2, float(rows[0].sum())
    p = float(ndtr((correction - excess) / math.sqrt(variance))) if variance else 1.0
    # If no run differed, the rate of differences is still unknown, as in `rise_over_run`.
    error = math.sqrt(variance or upper_limit_of_share(0, texts, 0.025) * n) / n

    def limits(level: float) -> RiseLimits:
        if not variance:
            return -upper_limit_of_share(0, texts, level), upper_limit_of_share(0, texts, level)
        reach = correction - float(ndtri(level)) * math.sqrt(variance)
        return (excess - reach) / n, (excess + reach) / n

    return BaselineDelta(excess / n, n, texts, p, error, limits)


def sign_flip_p_value(differences: NDArray[np.int64], chance: float = 0.5) -> float:
    """Return how likely the sum of whole numbers is at least as large when each is positive with this chance."""
    from scipy import stats

    sizes, counts = np.unique(np.abs(differences[differences != 0]).astype(int), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes, counts, strict=True):
        # Among differences of one size the number of positive ones is binomial, and each adds `size` to the sum.
        stretched = np.zeros(size * count + 1)
        stretched[::size] = stats.binom.pmf(np.arange(count + 1), count, chance)
        chances = np.convolve(chances, stretched)
    # `chances[i]` is that of a sum of the positive numbers of i; the whole sum is 2i minus the largest possible.
    positive = int(differences[differences > 0].sum())
    return min(1.0, float(chances[positive:].sum()))


def upper_limit_of_share(count: int, n: int, level: float) -> float:
    """Return the upper limit of a share of which `count` of n were seen, one-sided (Wilson 1927)."""
    limits = wilson(count, n, 1 - 2 * level)
    assert limits is not None, "n is at least 1"
    return limits[1]


def _sign_test_limits(differences: NDArray[np.int64], n: int, texts: int, level: float) -> RiseLimits:
    """Return the limits of a rise at a level, each of the sign test.

    A rise is the share of pairs that differ, times how much more often they differ for the worse. The test gives the
    limits of the second (Clopper and Pearson 1934, where each example has one pair). The first adds its own uncertainty
    to a limit on the far side of 0, as in Newcombe's intervals: with no pair that differs the limit is that of a share
    of which none was seen.
    """
    differing, share = len(differences), float(np.abs(differences).sum()) / n
    most_differing = upper_limit_of_share(differing, texts, level) * (share * texts / differing if differing else 1.0)
    value = float(differences.sum()) / n
    below, above = (
        _far_limit(sign * value, share, most_differing, _tilt_limit(sign * differences, level)) for sign in (-1, 1)
    )
    return -below, above


def _far_limit(value: float, share: float, largest_share: float, tilt: float) -> float:
    """Return the upper limit of a rise: `tilt` is that of the difference of the chances to get worse and better."""
    if tilt <= 0:
        return share * tilt
    return min(1.0, value + math.hypot(share * tilt - value, tilt * (largest_share - share)))


def _tilt_limit(differences: NDArray[np.int64], level: float) -> float:
    """Return the upper limit, one-sided, of the chance of a positive difference less that of a negative one."""
    negative = int((differences < 0).sum())
    if not negative:
        return 1.0
    sizes = np.unique(np.abs(differences))
    if len(sizes) == 1:
        chance = float(betaincinv(negative, len(differences) - negative + 1, level))
    else:
        from scipy.optimize import brentq

        chance = float(brentq(lambda chance: sign_flip_p_value(-differences, chance) - level, 0.0, 1.0, xtol=1e-12))
    return 1 - 2 * chance


FEWEST_RUNS = 3
"""The number of baseline runs from which their spread is used."""


@dataclass(frozen=True)
class PooledSpread:
    """The spread of all cells of a check.

    One cell has k - 1 degrees of freedom, too few for a correction for many cells. So the variance that a rise is
    measured by is the cell's own plus the one pooled over all cells. (Of a single cell it is the cell's own: the usual
    t test for a new draw.) The pooled one alone would do if all victims moved as much when they are trained again.
    Where only some of them move, it is too small for those that do; the cell's own part keeps false alarms near alpha
    there.

    Cells that share a victim move together. If all C cells are independent, they are C measurements of the variance,
    and C chances of a false alarm. If all move as one, they are one measurement and one chance. Between these they are
    m groups. So p is the largest over m = 1..C of m * P(t > T) with m * (k - 1) degrees of freedom. Each metric moves
    by another amount, so it has a pool of its own, and p is multiplied by the number of metrics. Of several cells it is
    multiplied by the square root of that number, since their variance, the own plus the pooled one, is up to twice too
    large already. All this is no theorem but a choice by simulation: `benchmarks/calibration.py` has the numbers.
    """

    variance: float
    """Pooled over the cells, weighted by degrees of freedom."""
    cells: int
    metrics: int
    """How many metrics the check judges; p is corrected for all."""

    @classmethod
    def of(cls, rises: Sequence[BaselineDelta], metrics: int = 1) -> PooledSpread:
        """Pool the variances of the cells of one metric."""
        freedom = sum(rise.freedom for rise in rises)
        squares = math.fsum(rise.freedom * (rise.deviation or 0.0) ** 2 for rise in rises)
        return cls(squares / freedom if freedom else 0.0, len(rises), metrics)

    @property
    def metrics_factor(self) -> float:
        """By how much p is multiplied because a check judges several metrics."""
        return self.metrics if self.cells == 1 else math.sqrt(self.metrics)

    def error(self, rise: BaselineDelta) -> float:
        """Return the standard error of a cell's rise, of a new draw over the mean of k."""
        others = self.variance * (1 - 1 / self.cells)
        return math.sqrt(((rise.deviation or 0.0) ** 2 + others) * (1 + 1 / rise.runs))

    def p(self, rise: BaselineDelta) -> float:
        """Return the p value of one cell, not corrected: all cells measure the deviation as one."""
        return self._largest_p(rise, 1)

    def corrected_p(self, rise: BaselineDelta) -> float:
        """Return the p value of one cell, corrected for all rows."""
        return min(1.0, self.metrics_factor * self._largest_p(rise, self.cells))

    def _largest_p(self, rise: BaselineDelta, most: int) -> float:
        error = self.error(rise)
        if not error:
            return 0.0 if rise.value > 0 else 1.0
        groups = np.arange(1, most + 1)
        # m * P(t > T) of m groups of cells that move together, for each m from 1 to all cells; see the class.
        tails = groups * stdtr(groups * rise.freedom, -rise.value / error)
        return float(min(1.0, tails.max()))

    def critical_value(self, rise: BaselineDelta, alpha: float) -> float:
        """Return by how many standard errors a rise must exceed 0 so that its corrected p is below alpha."""
        return _critical_value(self.cells, rise.freedom, alpha / self.metrics_factor)[0]

    def shown(self, rise: BaselineDelta, alpha: float) -> float:
        """Return how many standard errors a true rise must have to be significant with a power of 0.8."""
        critical, groups = _critical_value(self.cells, rise.freedom, alpha / self.metrics_factor)
        return detectable_errors(groups * rise.freedom, critical)


@cache
def _critical_value(cells: int, freedom: int, alpha: float) -> tuple[float, int]:
    """Return the critical value, and the number of groups that gives it."""
    groups = np.arange(1, cells + 1)
    values = stdtrit(groups * freedom, 1 - alpha / groups)
    return float(values.max()), int(groups[values.argmax()])


def rise_over_mean(baseline: Sequence[Values], new: Values) -> BaselineDelta | None:
    """Compare the new run with the mean of baseline runs; None unless three of them share examples.

    Each value is taken from the mean of all runs that attacked the same example with the same seed. So runs whose
    victims skipped different examples can be compared. Where none did, that is each run's plain share less a constant.
    """
    runs = np.stack([new, *baseline])
    has_value = ~np.isnan(runs)
    runs_with_pair = has_value.sum(axis=0)
    shared = has_value & (runs_with_pair > 1)
    counts = shared.sum(axis=(1, 2))
    if not counts[0] or (counts[1:] > 0).sum() < FEWEST_RUNS:
        return None
    means = np.where(shared, runs, 0.0).sum(axis=0) / np.maximum(runs_with_pair, 1)
    deviations = np.where(shared, runs - means, 0.0)
    # Each run's own mean over the pairs it shares: their standard deviation is what training again does.
    values = deviations[1:].sum(axis=(1, 2))[counts[1:] > 0] / counts[1:][counts[1:] > 0]
    return replace(
        mantel_haenszel_rise(deviations, shared, runs_with_pair), deviation=float(values.std(ddof=1)), runs=len(values)
    )
