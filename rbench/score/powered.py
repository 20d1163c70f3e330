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

from rbench.score.nested_intervals import NEGLIGIBLE
from rbench.score.people import effective_sample_size
from rbench.score.statistics import CONFIDENCE, wilson

Values = NDArray[np.float64]
MIN_JUDGED = 10
"""Below so many texts with both values the weight is 0: it cannot be told."""


class PoweredEstimate(NamedTuple):
    """A mean of what people say, with the help of a proxy."""

    mean: float
    """As it is estimated; a little beyond 0..1 is possible."""
    weight: float
    """Of the proxy, 0..1. 0: the mean of people's answers alone."""
    variance: float
    gain: float
    """How many times as many answers of people alone would have this variance; 1 with a weight of 0."""


class ProxyError(NamedTuple):
    """How a proxy does on texts that people judged too."""

    n: int
    distance: float
    """Mean distance from the share of raters."""
    bias: float
    """Mean of the proxy less that of people: above 0 it accepts too much."""
    auc: float | None
    """How often it gives more to a text that most raters accept than to one that most do not; 1/2 is chance. None where
    most raters accept all texts, or none."""


def estimate_with_proxy(shares: Values, proxies: Values, unjudged_proxies: Values) -> PoweredEstimate:
    """Estimate the mean of what people would say of all texts.

    Args:
        shares: of each judged text the share of raters who accept it, in 0..1; at least one.
        proxies: what the proxy says of the same texts, in 0..1.
        unjudged_proxies: what it says of the texts that nobody judged.
    """
    n, num_unjudged = len(shares), len(unjudged_proxies)
    variance_alone = float(shares.var(ddof=1)) / n if n > 1 else 0.0
    classical = PoweredEstimate(float(shares.mean()), 0.0, variance_alone, 1.0)
    if n < MIN_JUDGED or num_unjudged < 2 or variance_alone <= NEGLIGIBLE:
        return classical
    proxy_variance = float(np.concatenate([proxies, unjudged_proxies]).var(ddof=1))
    covariance = float(np.mean((shares - shares.mean()) * (proxies - proxies.mean())))
    # w of the module's head. A proxy that never varies tells nothing, so its weight is 0.
    weight = 0.0
    if proxy_variance > NEGLIGIBLE:
        weight = min(1.0, max(0.0, covariance / ((1 + n / num_unjudged) * proxy_variance)))
    residuals = shares - weight * proxies
    # `var()` divides by n, which supplies the factor (n - 1) / n of the formula above.
    variance = float(residuals.var()) / (n - 2) + weight**2 * float(unjudged_proxies.var(ddof=1)) / num_unjudged
    if not weight or variance >= variance_alone:
        return classical
    return PoweredEstimate(
        float(residuals.mean() + weight * unjudged_proxies.mean()),
        weight,
        variance,
        variance_alone / max(variance, NEGLIGIBLE),
    )


def estimate_limits(estimate: PoweredEstimate, shares: Values, raters: int, repeats: float = 1) -> tuple[float, float]:
    """Return the limits of the mean: Wilson's, with as many texts as have this variance.

    Args:
        shares: as for `estimate_with_proxy`.
        raters: how many there are.
        repeats: in how many seeds each text was attacked, on average; the interval is as wide as for n / `repeats`.
    """
    size, n = effective_sample_size(shares, raters) / repeats, len(shares)
    if estimate.weight:  # the variance has few degrees of freedom, as Student's t takes account of
        normal = float(stdtrit(1e9, 0.5 + CONFIDENCE / 2))
        size *= estimate.gain * (normal / float(stdtrit(n - 2, 0.5 + CONFIDENCE / 2))) ** 2
    limits = wilson(min(1.0, max(0.0, estimate.mean)) * size, size)
    assert limits is not None, "there is a text"
    return limits


def measure_proxy_error(shares: Values, proxies: Values) -> ProxyError:
    """Measure a proxy on texts that people judged; at least one."""
    above, below = proxies[shares > 0.5], proxies[shares < 0.5]
    auc = None
    if len(above) and len(below):
        gaps = above[:, None] - below[None, :]
        auc = float(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
    errors = proxies - shares
    return ProxyError(len(shares), float(np.abs(errors).mean()), float(errors.mean()), auc)


def added_reach(interval: tuple[float, float], reference: tuple[float, float], value: float) -> tuple[float, float]:
    """Return the distance that an interval adds to the reach of another one from a value, below it and above it.

    Distances of independent errors add up as squares: reach of `interval`^2 = reach of `reference`^2 + added^2. It is 0
    on a side where `interval` is the narrower one.
    """
    sides = [(value - interval[0], value - reference[0]), (interval[1] - value, reference[1] - value)]
    down, up = (
        max(0.0, max(0.0, first_reach) ** 2 - max(0.0, second_reach) ** 2) for first_reach, second_reach in sides
    )
    return math.sqrt(down), math.sqrt(up)
