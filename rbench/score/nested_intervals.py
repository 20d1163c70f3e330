"""Say how far a mean may be from the true one where seeds, trainings and texts are all drawn at random.

Two variances stand behind a mean over several victims. That of *texts* is known from many: each text's sum over all
victims, taken from the victims' own means, so that a text which all attacked counts once. That of *draws* (trainings,
or fine-tuning seeds) is known from as few as two means. It has the noise of their texts in it, so seeds that do not
differ show one nevertheless, and seeds that differ may happen to agree. Therefore

    reach^2 = z^2 * texts + t^2 * max(0, draws - share * (noise + (texts - noise) / (df + 1)))

with Student's t of the draws' own degrees of freedom df. Only the second term has few of them, and the first is always
there: no interval is narrower than texts alone allow. To add squared reaches is Howe's way (1974, JASA 69), and that of
the modified large-sample intervals in Burdick and Graybill (1992, "Confidence Intervals on Variance Components").
`noise` is the part of `draws` that texts explain. Not all of it is subtracted, for a spread below its expectation
proves nothing: `share` is a lower quantile of chi^2/df (`Spread.excess`). It was chosen for normal means, so that
intervals cover at least 93.6%, however much draws differ and however few they are. Satterthwaite's degrees of freedom
cover 87% in the worst case. `benchmarks/coverage_of_intervals.py` has both, and simulates rates and differences.

A share's interval is Wilson's, and that of a paired difference of shares Newcombe's, on the number of texts that has
the same reach at the share observed (as Korn and Graubard 1998 do for clustered samples). So it stays within its
bounds and reaches further towards 50%. Intervals of other values are symmetric.

What a sample could have shown is the smallest true difference that its test finds with a power of 0.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, nctdtr, ndtr, ndtri, stdtr, stdtrit

from rbench.score.statistics import CONFIDENCE

NOTHING = 1e-24
"""Variances below this are rounding errors of values that do not vary."""

Limits = Callable[[float], tuple[float, float]]
"""Returns the limits of an interval by its confidence."""


class Spread(NamedTuple):
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
    """Of numbers that people gave: what they vary by beyond the texts, because others might have been asked."""
    rater_freedom: float = 0.0
    """Degrees of freedom of `raters`; 0 for a single one, who tells nothing of others."""

    @property
    def known(self) -> bool:
        """Whether values vary, and so much of them is there that their variance can be told."""
        return self.texts * bool(self.text_freedom) + self.excess + self.raters > NOTHING

    @property
    def excess(self) -> float:
        """What draws vary by more than their texts explain, at least 0.

        Of the noise, the quantile 1/2 - 1 / (5 df) of its distribution is subtracted: 15% of it with one degree of
        freedom, 51% with two, 76% with four. Where victims share texts, draws that vary little beside these do not
        matter, so a part of what shared texts add is subtracted too.
        """
        if not np.any(self.draw_freedom):
            return 0.0
        half = self.draw_freedom / 2
        share = gammaincinv(half, 0.5 - 0.1 / half) / half
        least = self.noise + (self.texts - self.noise) / (self.draw_freedom + 1)
        return np.maximum(0.0, self.draws - share * least)  # type: ignore[no-any-return]

    @property
    def total(self) -> float:
        """The variance of the mean as it is most likely, without a doubt about it."""
        return self.texts + max(0.0, self.draws - self.noise) + self.raters

    def squared_reach(self, confidence: float, *, normal: bool = False) -> float:
        """Return the square of the distance from the mean to either limit.

        Args:
            confidence: of the interval, in 0..1.
            normal: whether the part of texts has the normal quantile, as Wilson's interval has, instead of Student's.
        """
        upper = 0.5 + confidence / 2
        found = 0.0
        if np.any(self.texts) and (normal or self.text_freedom):
            found = self.texts * (ndtri(upper) if normal else stdtrit(self.text_freedom, upper)) ** 2
        if self.raters and self.rater_freedom:
            found = found + self.raters * stdtrit(self.rater_freedom, upper) ** 2
        excess = self.excess
        return found + excess * stdtrit(self.draw_freedom, upper) ** 2 if np.any(excess) else found

    def effective(self, unit: float, confidence: float) -> float:
        """Return the number of independent texts that reach as far with the normal quantile.

        Args:
            unit: the variance of a single text's value, above 0.
            confidence: of the interval, in 0..1.
        """
        return ndtri(0.5 + confidence / 2) ** 2 * unit / self.squared_reach(confidence, normal=True)  # type: ignore[no-any-return]

    def interval(self, value: float, confidence: float) -> tuple[float, float]:
        """Return the symmetric interval of a mean of this value."""
        if self.excess or self.raters:
            reach = math.sqrt(self.squared_reach(confidence))
        else:
            reach = float(stdtrit(self.text_freedom, 0.5 + confidence / 2)) * math.sqrt(self.texts)
        return value - reach, value + reach

    def p(self, distance: float) -> float:
        """Return the two-sided p value of a true mean so far from the one observed: that of `interval`."""
        if not self.excess and not self.raters:
            return float(2 * stdtr(self.text_freedom, -abs(distance) / math.sqrt(self.texts)))
        # With one level p has a closed form. With several, it is found by inverting the interval.
        if not self.raters and (self.texts <= NOTHING or not self.text_freedom):
            return float(2 * stdtr(self.draw_freedom, -abs(distance) / math.sqrt(self.excess)))
        return inverted(lambda confidence: self.interval(0.0, confidence), abs(distance))

    def smallest(self) -> float:
        """Return the smallest true distance from a bound that a 95% interval excludes with a power of 0.8.

        The variances are taken as the true ones. What the next sample shows of them varies, and so does its reach; with
        one level this is the noncentral t distribution.
        """
        if not self.draw_freedom and self.raters:
            reach, error = math.sqrt(self.squared_reach(CONFIDENCE)), math.sqrt(self.total)
            return solved(lambda away: float(ndtr((away - reach) / error)), error)
        if not self.draw_freedom:
            critical = float(stdtrit(self.text_freedom, 0.5 + CONFIDENCE / 2))
            return math.sqrt(self.texts) * errors_shown(self.text_freedom, critical)
        # The variance that a sample shows is chi^2 / df times the true one, which is at least the noise of the texts.
        shown = chances(self.draw_freedom) * max(self.draws, self.noise)
        reach = np.sqrt(self._replace(draws=shown).squared_reach(CONFIDENCE))  # type: ignore[arg-type]
        error = math.sqrt(self.total)
        return solved(lambda away: float(np.mean(ndtr((away - reach) / error))), error)


def errors_shown(freedom: float, critical: float) -> float:
    """Return how many standard errors a true mean must lie away so that t is above `critical` with a power of 0.8."""
    return solved(lambda away: 1 - float(nctdtr(freedom, away, critical)), critical)


def chances(freedom: float, classes: int = 40) -> NDArray[np.float64]:
    """Return how many times as large as expected a variance shows itself: the middles of equally probable classes."""
    found: NDArray[np.float64] = gammaincinv(freedom / 2, (np.arange(classes) + 0.5) / classes) / (freedom / 2)
    return found


def solved(power: Callable[[float], float], start: float, end: float = math.inf) -> float:
    """Return where a rising power reaches `POWER`; `end` where it does not below that."""
    below, above = 0.0, start
    while above < end and power(above) < POWER:
        below, above = above, min(2 * above, end)
    while above - below > 1e-4 * above:
        middle = (below + above) / 2
        below, above = (below, middle) if power(middle) >= POWER else (middle, above)
    return above


def joined(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of independent variances, and its degrees of freedom by Satterthwaite (1946).

    Args:
        parts: of each variance its value and degrees of freedom, 0 where it cannot be estimated.
    """
    there = list(parts)
    variance = math.fsum(part for part, _ in there)
    spread = math.fsum(part**2 / freedom for part, freedom in there if freedom)
    return variance, variance**2 / spread if spread else max((freedom for _, freedom in there), default=0.0)


def inverted(limits: Limits, bound: float) -> float:
    """Return the two-sided p value of a bound: the interval with confidence 1 - p has the bound as a limit."""
    below, above = 0.0, 1.0
    for _ in range(50):
        p = (below + above) / 2
        low, high = limits(1 - p)
        # The interval shrinks as p grows, so the bound lies inside for all smaller p and outside for all larger ones.
        below, above = (p, above) if low <= bound <= high else (below, p)
    return above


POWER = 0.8
"""The power at which the smallest difference is stated."""


@lru_cache(maxsize=4096)  # a run has thousands of pairs of cells, and only as many rates as a cell has texts
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
    most = stats.binom.ppf((1 - confidence) / 2, pairs, 0.5) - 1  # ppf is the first count that is too probable
    most += 2 * stats.binom.cdf(most + 1, pairs, 0.5) <= 1 - confidence  # where it hits the level exactly
    # Share of discordant pairs in the direction of the difference: rate * (up - (1 - up)) = difference.
    up = (1 + difference / rate) / 2
    found = stats.binom.cdf(most, pairs, up) + stats.binom.sf(pairs - most - 1, pairs, up)
    return float(np.sum(stats.binom.pmf(pairs, n, rate) * found))
