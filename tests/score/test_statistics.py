"""The intervals against statsmodels, scipy and the standard library."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from rbench.score import Sample, standard_deviation, wilson

numbers = st.lists(st.floats(-1e6, 1e6), max_size=30)


@settings(deadline=None)
@given(st.integers(0, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_equals_statsmodels(pair: tuple[int, int]) -> None:
    count, n = pair
    if n == 0:
        assert wilson(count, n) is None
        return
    assert wilson(count, n) == pytest.approx(proportion_confint(count, n, alpha=0.05, method="wilson"), abs=1e-12)


def test_wilson_at_the_ends_stays_within_the_range() -> None:
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


@settings(deadline=None)
@given(numbers.filter(lambda values: len(values) > 1))
def test_t_interval_equals_scipy(values: list[float]) -> None:
    sample = Sample.of(values)
    assert sample.mean == pytest.approx(fmean(values))
    assert sample.deviation == pytest.approx(stdev(values), abs=1e-9)
    if stdev(values) > 1e-6:
        expected = stats.t.interval(0.95, len(values) - 1, loc=fmean(values), scale=stats.sem(values))
        assert sample.interval() == pytest.approx(expected)


def test_one_value_has_no_interval_and_equal_values_have_a_point() -> None:
    assert Sample.of([]) == Sample(0, None, None)
    assert Sample.of([3]).interval() is None
    assert Sample.of([3, 3, 3]).interval() == (3, 3)


@settings(deadline=None)
@given(st.lists(numbers, max_size=4))
def test_pooling_adds_the_counts_of_seeds(samples: list[list[float]]) -> None:
    pooled = Sample.pooled(Sample.of(values) for values in samples)
    together = Sample.of(value for values in samples for value in values)
    assert pooled.n == together.n
    if together.n:
        assert pooled.mean == pytest.approx(together.mean, abs=1e-6)
    if together.n > 1:
        assert pooled.deviation == pytest.approx(together.deviation, rel=1e-6, abs=1e-4)


def test_spread_is_the_sample_deviation_of_what_is_there() -> None:
    assert standard_deviation([]) is standard_deviation([0.5]) is standard_deviation([0.5, None]) is None
    assert standard_deviation([0.4, None, 0.6]) == pytest.approx(math.sqrt(0.02))
