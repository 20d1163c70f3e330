"""What a sample could have shown: the smallest true difference that a test finds with a given power."""

from __future__ import annotations

import math

POWER = 0.8
"""The power at which the smallest difference is stated."""


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
    up = (1 + difference / rate) / 2
    found = stats.binom.cdf(most, pairs, up) + stats.binom.sf(pairs - most - 1, pairs, up)
    return float(np.sum(stats.binom.pmf(pairs, n, rate) * found))
