"""Tests the power of McNemar's exact test against a sum over all tables, and what small samples can show at all."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from rbench.score.nested_intervals import POWER, power_of_pairs, smallest_of_pairs


def slow_power(n: int, difference: float, rate: float, level: float) -> float:
    rate = max(rate, difference)
    up, down = (rate + difference) / 2, (rate - difference) / 2
    power = 0.0
    for a in range(n + 1):
        for b in range(n + 1 - a):
            if a + b and stats.binomtest(a, a + b).pvalue <= level:
                ways = math.factorial(n) // (math.factorial(a) * math.factorial(b) * math.factorial(n - a - b))
                power += ways * up**a * down**b * max(0.0, 1 - rate) ** (n - a - b)
    return power


@pytest.mark.parametrize(("n", "difference", "rate"), [(7, 0.9, 0.1), (14, 0.3, 0.4), (12, 1.0, 0.2)])
def test_power_equals_the_sum_over_all_tables(n: int, difference: float, rate: float) -> None:
    for level in (0.05, 0.0625):  # 0.0625 is the p value of five of five pairs
        assert power_of_pairs(n, difference, rate, 1 - level) == pytest.approx(slow_power(n, difference, rate, level))


def test_the_smallest_difference_is_where_the_power_is_reached() -> None:
    for n, rate in ((30, 0.02), (41, 0.1), (400, 0.2), (5000, 0.15)):
        found = smallest_of_pairs(n, rate)
        assert found is not None
        assert power_of_pairs(n, found - 2e-4, rate) < POWER <= power_of_pairs(n, found, rate)


def test_few_pairs_show_only_large_differences_however_few_of_them_are_discordant() -> None:
    """Six pairs must fall on one side before p is below 0.05."""
    found = smallest_of_pairs(41, 1 / 41)
    assert found is not None and found > 6 / 41
    assert smallest_of_pairs(5, 0.2) is None
    assert smallest_of_pairs(6, 0.2) is not None
    assert smallest_of_pairs(0, 0.2) is None


def test_large_samples_agree_with_the_normal_approximation() -> None:
    n, rate = 20_000, 0.2
    expected = (stats.norm.ppf(0.975) + stats.norm.ppf(POWER)) * math.sqrt(rate / n)
    assert smallest_of_pairs(n, rate) == pytest.approx(expected, rel=0.02)
