"""Prediction-powered inference: people's answers on some texts, joined with a proxy's on all of them.

Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023, Science 382; arXiv:2301.09633), with the weight of the
"power-tuned" estimator of Angelopoulos, Duchi and Zrnic (2023, PPI++, arXiv:2311.01453). With n texts that have both a
value y of people's and one f of the proxy, and N further ones that have f alone,

    mean = mean_n(y - w f) + w mean_N(f),    w = cov_n(y, f) / ((1 + n / N) var_(n + N)(f)), within 0..1

is an unbiased estimate for any f: what the proxy gets wrong on average, people's answers measure and take out. The
better f tells y, the narrower the interval; a proxy that tells nothing gets a weight near 0, which leaves the mean of
y. Nothing here asks that f is right, calibrated, or better than chance, but only that people judged a random part.

The variance is var_n(y - w f) / (n - 2) * (n - 1) / n + w^2 var_N(f) / N: one degree of freedom more is lost than for a
mean alone, since the weight is fitted to the same answers. `benchmarks/powered.py` simulates how often intervals hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rbench.score.nested_intervals import NOTHING
from rbench.score.people import like_texts
from rbench.score.statistics import CONFIDENCE, wilson

Values = NDArray[np.float64]
FEWEST = 10
"""Below so many texts with both values the weight is 0: it cannot be told."""


class Powered(NamedTuple):
    """A mean of what people say, with the help of a proxy."""

    mean: float
    """As it is estimated; a little beyond 0..1 is possible."""
    weight: float
    """Of the proxy, 0..1. 0: the mean of people's answers alone."""
    variance: float
    gain: float
    """How many times as many answers of people alone would have this variance; 1 with a weight of 0."""


class Error(NamedTuple):
    """How a proxy does on texts that people judged too."""

    n: int
    off: float
    """Mean distance from the share of raters."""
    bias: float
    """Mean of the proxy less that of people: above 0 it accepts too much."""
    auc: float | None
    """How often it gives more to a text that most raters accept than to one that most do not; 1/2 is chance. None where
    most raters accept all texts, or none."""


def powered(shares: Values, proxies: Values, rest: Values) -> Powered:
    """Estimate the mean of what people would say of all texts.

    Args:
        shares: of each judged text the share of raters who accept it, in 0..1; at least one.
        proxies: what the proxy says of the same texts, in 0..1.
        rest: what it says of the texts that nobody judged.
    """
    n, others = len(shares), len(rest)
    alone = float(shares.var(ddof=1)) / n if n > 1 else 0.0
    classical = Powered(float(shares.mean()), 0.0, alone, 1.0)
    if n < FEWEST or others < 2 or alone <= NOTHING:
        return classical
    varies = float(np.concatenate([proxies, rest]).var(ddof=1))
    common = float(np.mean((shares - shares.mean()) * (proxies - proxies.mean())))
    weight = min(1.0, max(0.0, common / ((1 + n / others) * varies))) if varies > NOTHING else 0.0
    left = shares - weight * proxies
    # `var()` divides by n, which supplies the factor (n - 1) / n of the formula above.
    variance = float(left.var()) / (n - 2) + weight**2 * float(rest.var(ddof=1)) / others
    if not weight or variance >= alone:
        return classical
    return Powered(float(left.mean() + weight * rest.mean()), weight, variance, alone / max(variance, NOTHING))


def powered_limits(found: Powered, shares: Values, raters: int) -> tuple[float, float]:
    """Return the limits of the mean: Wilson's, with as many texts as have this variance.

    Args:
        shares: as for `powered`.
        raters: how many there are.
    """
    size, n = like_texts(shares, raters), len(shares)
    if found.weight:  # the variance has few degrees of freedom, as Student's t takes account of
        normal = float(stdtrit(1e9, 0.5 + CONFIDENCE / 2))
        size *= found.gain * (normal / float(stdtrit(n - 2, 0.5 + CONFIDENCE / 2))) ** 2
    limits = wilson(min(1.0, max(0.0, found.mean)) * size, size)
    assert limits is not None, "there is a text"
    return limits


def error_of(shares: Values, proxies: Values) -> Error:
    """Measure a proxy on texts that people judged; at least one."""
    above, below = proxies[shares > 0.5], proxies[shares < 0.5]
    auc = None
    if len(above) and len(below):
        apart = above[:, None] - below[None, :]
        auc = float(np.mean((apart > 0) + 0.5 * (apart == 0)))
    off = proxies - shares
    return Error(len(shares), float(np.abs(off).mean()), float(off.mean()), auc)


def reach_added(one: tuple[float, float], other: tuple[float, float], value: float) -> tuple[float, float]:
    """Return by how much further, squared, one interval reaches from a value than another, below and above."""
    sides = [(value - one[0], value - other[0]), (one[1] - value, other[1] - value)]
    down, up = (max(0.0, max(0.0, mine) ** 2 - max(0.0, theirs) ** 2) for mine, theirs in sides)
    return math.sqrt(down), math.sqrt(up)
