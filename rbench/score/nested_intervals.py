"""Say how far a mean may be from the true one where seeds, trainings and texts are all drawn at random.

Two variances stand behind a mean over several victims. That of *texts* is known from many: each text's sum over all
victims, taken from the victims' own means, so that a text which all attacked counts once. That of *draws* (trainings,
or fine-tuning seeds) is known from as few as two means, with `df` degrees of freedom. It has the noise of their own
texts in it, `noise`; what all draws' texts share, `texts - noise`, it does not show. So at confidence 1 - a

    reach^2 = z^2 * (texts - noise) + t^2 * draws       with the quantiles at 1 - a / 2, t of `df` degrees of freedom

and no interval is narrower than z^2 * texts. To add squared reaches is Howe's way (1974, JASA 69), and that of the
modified large-sample intervals in Burdick and Graybill (1992, "Confidence Intervals on Variance Components").

Draws which differ by nothing but their texts are known better than t says: then z^2 * texts is enough. Few draws,
however, may also agree by luck. Texts alone decide where this luck is no likelier than a: for every true variance T of
the draws, above `noise` and above the one observed, a false positive by it has at most the probability

    P(draws this small or smaller | T) * P(|mean| > z * sqrt(texts) | T)  <=  a

The probability of an error is then 1.0 to 1.15 times a for normal means, for each a from 0.2 to 0.0001, 1 to 4 degrees
of freedom, any difference between draws and any share of common texts (1.26 for 20 degrees and a = 0.0001). The power
is about that of a paired t test over the draws' means where draws differ, and above it where they do not. Two draws
(df = 1) are so rarely known to agree that small p values are out of their reach. `benchmarks/calibration_of_p.py`
simulates shares.

A share's interval is Wilson's on the number of texts that has the same reach at the share observed (as Korn and
Graubard 1998 do for clustered samples). So it stays within its bounds and reaches further towards 50%. A paired
difference of shares has Newcombe's interval of texts alone, whose distances to the limits take the place of
z^2 * texts. Intervals of other values are symmetric. p inverts the interval.

What a sample could have shown is the smallest true difference that its test finds with a power of 0.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincinv, nctdtr, ndtr, ndtri, stdtr, stdtrit

from rbench.score.statistics import CONFIDENCE

NEGLIGIBLE = 1e-24
"""Variances below this are rounding errors of values that do not vary."""

Number = Any
"""A float, or an array with an entry a sample."""

LimitsOf = Callable[[float], tuple[float, float]]
"""Returns the limits of an interval by its confidence."""


class VarianceLevels(NamedTuple):
    """The variance of a mean, by levels. Numbers may be arrays, an entry a sample."""

    texts: float
    """The part of texts, where victims are given."""
    text_freedom: float
    draws: float = 0.0
    """The variance of the mean as the means of draws show it, each of its own texts; 0 for a single draw."""
    draw_freedom: float = 0.0
    """Degrees of freedom of `draws`; 0 for a single draw."""
    noise: float = 0.0
    """What `draws` would be on average if draws did not differ: at most `texts`."""
    raters: float = 0.0
    """Of numbers that people gave: the variance of the mean as the means of raters show it."""
    rater_freedom: float = 0.0
    """Degrees of freedom of `raters`; 0 for a single one, who tells nothing of others."""
    rater_noise: float = 0.0
    """What `raters` would be on average if raters did not differ."""

    @property
    def known(self) -> bool:
        """Whether values vary, and so much of them is there that their variance can be told."""
        return self.texts * bool(self.text_freedom) + self.draws + self.raters > NEGLIGIBLE

    @property
    def total(self) -> float:
        """The most likely variance of the mean: the sum of the levels, without what noise adds to each."""
        return self.texts + max(0.0, self.draws - self.noise) + max(0.0, self.raters - self.rater_noise)

    def squared_reach(self, confidence: float, *, normal: bool = False) -> Number:
        """Return the square of the distance from the mean to either limit.

        Args:
            confidence: of the interval, in 0..1.
            normal: whether the part of texts has the normal quantile, as Wilson's interval has, instead of Student's.
        """
        upper = 0.5 + confidence / 2
        if not normal and not self.text_freedom:
            return self.beyond_texts(confidence)
        quantile = float(ndtri(upper)) if normal else float(stdtrit(self.text_freedom, upper))
        # Squared reaches of independent levels add up (Howe 1974), not the reaches: that would be needlessly wide.
        return quantile**2 * self.texts + self.beyond_texts(confidence)

    def beyond_texts(self, confidence: float) -> Number:
        """Return what draws and raters add to the squared reach that texts alone have."""
        levels = (
            (self.draws, self.draw_freedom, self.noise),
            (self.raters, self.rater_freedom, self.rater_noise),
        )
        return sum(squared_reach_of_draws(self.texts, *level, confidence) for level in levels if np.any(level[1]))

    def effective_texts(self, unit: float, confidence: float) -> Number:
        """Return the number of independent texts that reach as far with the normal quantile.

        Args:
            unit: the variance of a single text's value, above 0.
            confidence: of the interval, in 0..1.
        """
        return ndtri(0.5 + confidence / 2) ** 2 * unit / self.squared_reach(confidence, normal=True)

    def interval(self, value: float, confidence: float) -> tuple[float, float]:
        """Return the symmetric interval of a mean of this value."""
        reach = math.sqrt(self.squared_reach(confidence))
        return value - reach, value + reach

    def p(self, distance: float) -> float:
        """Return the two-sided p value of a true mean so far from the one observed: that of `interval`."""
        if not self.draw_freedom and not self.rater_freedom:
            return float(2 * stdtr(self.text_freedom, -abs(distance) / math.sqrt(self.texts)))
        return invert_interval(lambda confidence: self.interval(0.0, confidence), abs(distance))

    def smallest(self) -> float:
        """Return the smallest true distance from a bound that a 95% interval excludes with a power of 0.8.

        The variances are taken as the true ones. What the next sample shows of them varies, and so does its reach; with
        one level this is the noncentral t distribution.
        """
        if not self.draw_freedom and self.raters:
            reach, error = math.sqrt(self.squared_reach(CONFIDENCE)), math.sqrt(self.total)
            return solve_for_power(lambda away: float(ndtr((away - reach) / error)), error)
        if not self.draw_freedom:
            critical = float(stdtrit(self.text_freedom, 0.5 + CONFIDENCE / 2))
            return math.sqrt(self.texts) * detectable_errors(self.text_freedom, critical)
        # The variance that a sample shows is chi^2 / df times the true one, which is at least the noise of the texts.
        shown_draws = variance_ratio_quantiles(self.draw_freedom) * max(self.draws, self.noise)
        varied_draws: Number = shown_draws
        reach = np.sqrt(self._replace(draws=varied_draws).squared_reach(CONFIDENCE))
        error = math.sqrt(self.total)
        return solve_for_power(lambda away: float(np.mean(ndtr((away - reach) / error))), error)


def squared_reach_of_draws(texts: Number, draws: Number, freedom: Number, noise: Number, confidence: float) -> Number:
    """Return what a level of draws adds to the squared reach that texts alone have, at least 0.

    Args:
        texts: variance of the mean by texts, with `noise` in it.
        draws: variance of the mean as the means of draws show it.
        freedom: degrees of freedom of `draws`.
        noise: what `draws` would be on average if draws did not differ.
        confidence: of the interval, in 0..1.

    All but the last may be arrays of one shape.
    """
    level, upper = 1 - confidence, 0.5 + confidence / 2
    added = np.maximum(0.0, stdtrit(freedom, upper) ** 2 * draws - ndtri(upper) ** 2 * noise)
    # Texts alone decide where luck is no likelier than the level: the condition of the module's head.
    return np.where(lucky_agreement(texts, draws, freedom, noise, level) <= level, 0.0, added)[()]


def lucky_agreement(
    texts: Number, draws: Number, freedom: Number, noise: Number, level: float, steps: int = 24
) -> Number:
    """Return the probability that draws agree as well as these do and texts alone exclude the true mean.

    It is the largest over all true variances of the draws' means, above `noise` and above the one observed. Variances
    by which draws agree so well in fewer cases than `level` are passed over. The arguments are those of
    `squared_reach_of_draws`.

    Args:
        level: 1 minus the confidence of the interval of texts alone.
        steps: number of true variances.
    """
    texts, draws, freedom, noise = (
        np.asarray(part, dtype=np.float64)[..., None] for part in (texts, draws, freedom, noise)
    )
    # Below the variance observed, draws do not agree by luck: they differ more than was to be expected.
    half, smallest = freedom / 2, np.maximum(np.maximum(noise, draws), NEGLIGIBLE)
    # Each true variance is told by the probability of draws this small or smaller, from its largest down to the level.
    largest_chance = np.maximum(gammainc(half, half * draws / smallest), NEGLIGIBLE)
    chance_to_agree = largest_chance * np.minimum(level / largest_chance, 1.0) ** np.linspace(0, 1, steps)
    true_variance = np.maximum(half * draws / gammaincinv(half, chance_to_agree), smallest)
    chance_of_error = 2 * ndtr(ndtri(level / 2) * np.sqrt(texts / (np.maximum(texts - noise, 0.0) + true_variance)))
    return np.max(chance_to_agree * chance_of_error, axis=-1)


def detectable_errors(freedom: float, critical: float) -> float:
    """Return how many standard errors a true mean must lie away so that t is above `critical` with a power of 0.8."""
    return solve_for_power(lambda away: 1 - float(nctdtr(freedom, away, critical)), critical)


def variance_ratio_quantiles(freedom: float, classes: int = 40) -> NDArray[np.float64]:
    """Return how many times as large as expected a variance shows itself: the middles of equally probable classes."""
    quantiles: NDArray[np.float64] = gammaincinv(freedom / 2, (np.arange(classes) + 0.5) / classes) / (freedom / 2)
    return quantiles


def solve_for_power(power: Callable[[float], float], start: float, end: float = math.inf) -> float:
    """Return where a rising power reaches `POWER`; `end` where it does not below that."""
    below, above = 0.0, start
    while above < end and power(above) < POWER:
        below, above = above, min(2 * above, end)
    while above - below > 1e-4 * above:
        middle = (below + above) / 2
        below, above = (below, middle) if power(middle) >= POWER else (middle, above)
    return above


def sum_variances(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of independent variances, and its degrees of freedom by Satterthwaite (1946).

    Args:
        parts: of each variance its value and degrees of freedom, 0 where it cannot be estimated.
    """
    known_parts = list(parts)
    variance = math.fsum(part for part, _ in known_parts)
    divisor = math.fsum(part**2 / freedom for part, freedom in known_parts if freedom)
    return variance, variance**2 / divisor if divisor else max((freedom for _, freedom in known_parts), default=0.0)


def invert_interval(limits: LimitsOf, bound: float) -> float:
    """Return the two-sided p value of a bound: the interval with confidence 1 - p has the bound as a limit."""
    below, above = 0.0, 1.0
    # 34 halvings leave 6e-11, far below any p value that a table shows.
    for _ in range(34):
        p = (below + above) / 2
        low, high = limits(1 - p)
        # The interval shrinks as p grows, so the bound lies inside for all smaller p and outside for all larger ones.
        below, above = (p, above) if low <= bound <= high else (below, p)
    return above


POWER = 0.8
"""The power at which the smallest difference is stated."""


# A run has thousands of pairs of cells, but few different rates: no more than a cell has texts.
@lru_cache(maxsize=4096)
def smallest_of_pairs(n: int, rate: float, confidence: float = 0.95) -> float | None:
    """Return the smallest difference of two paired shares that McNemar's exact test finds with a power of 0.8.

    The test counts discordant pairs alone, so a difference of d needs a rate of discordant pairs of at least d. The
    power is exact: over all numbers of discordant pairs, and all ways to divide them.

    Args:
        n: number of pairs.
        rate: share of discordant pairs where the difference is below it, in 0..1.
        confidence: 1 minus the level of the two-sided test.

    Returns None where no difference is found with that power, because there are too few pairs.
    """
    if power_of_pairs(n, 1.0, rate, confidence) < POWER:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if power_of_pairs(n, middle, rate, confidence) >= POWER else (middle, high)
    return high


def power_of_pairs(n: int, difference: float, rate: float, confidence: float = 0.95) -> float:
    """Return the power, in 0..1, of McNemar's exact test for a true difference; the arguments are as above."""
    import numpy as np
    from scipy import stats

    rate = max(rate, difference)
    if not n or not rate:
        return 0.0
    # Numbers of discordant pairs further than eight deviations from what is expected have no weight.
    reach = 8 * math.sqrt(n * rate * (1 - rate)) + 1
    pairs = np.arange(max(1, math.floor(n * rate - reach)), min(n, math.ceil(n * rate + reach)) + 1)
    # The largest count that the test still rejects. `ppf` is the first count whose probability reaches the level, so it
    # is one too many, unless it reaches the level exactly.
    critical_count = stats.binom.ppf((1 - confidence) / 2, pairs, 0.5) - 1
    critical_count += 2 * stats.binom.cdf(critical_count + 1, pairs, 0.5) <= 1 - confidence
    # Share of discordant pairs in the direction of the difference: rate * (up - (1 - up)) = difference.
    share_up = (1 + difference / rate) / 2
    rejected = stats.binom.cdf(critical_count, pairs, share_up) + stats.binom.sf(
        pairs - critical_count - 1, pairs, share_up
    )
    return float(np.sum(stats.binom.pmf(pairs, n, rate) * rejected))
