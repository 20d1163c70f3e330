"""Unpaired comparisons against published limits and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rbench.score import Sample, Tally
from rbench.score.unpaired import compare_means, compare_shares, compare_tallies


def test_shares_have_the_published_limits() -> None:
    """Newcombe (1998), example (a): 56/70 against 48/80."""
    found = compare_shares((48, 80), (56, 70))
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert found.p == pytest.approx(stats.fisher_exact([[56, 14], [48, 32]]).pvalue)


def test_means_are_compared_as_scipy_does() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(10, 2, 30), rng.normal(11, 5, 12)
    found = compare_means(Sample.of(one), Sample.of(other))
    peer = stats.ttest_ind(other, one, equal_var=False)
    assert found.p == pytest.approx(peer.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(peer.confidence_interval()))


@pytest.mark.parametrize("metric", ["asr", "aua", "queries"])
def test_tallies_are_compared_by_the_metric_of_tables(metric: str) -> None:
    one = Tally(succeeded=10, failed=20, skipped=10, queries=Sample.of([3.0, 5.0, 8.0]))
    other = Tally(succeeded=24, failed=8, skipped=8, queries=Sample.of([9.0, 5.0, 8.0]))
    found = compare_tallies(one, other, metric)
    assert found.value == pytest.approx((other.score(metric).value or 0) - (one.score(metric).value or 0))  # type: ignore[arg-type]


def test_nothing_to_compare_is_no_difference() -> None:
    assert compare_shares((0, 0), (3, 4)).value is None
    assert compare_means(Sample(0), Sample.of([1.0])).value is None
    assert compare_means(Sample.of([1.0]), Sample.of([2.0])).low is None


def test_means_of_values_that_do_not_vary_are_not_judged() -> None:
    found = compare_means(Sample.of([30.0, 30.0]), Sample.of([31.0, 31.0]))
    assert (found.value, found.low, found.high, found.p) == (1.0, None, None, None)
    assert compare_means(Sample.of([30.0, 30.0]), Sample.of([30.0, 30.0])).p == 1.0
