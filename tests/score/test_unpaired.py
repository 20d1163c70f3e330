"""Unpaired comparisons against published limits and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from rbench.score import Sample, Tally
from rbench.score.paired import average_differences, compare_means, compare_pooled, compare_shares


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
    found = compare_pooled(getattr(one, metric), getattr(other, metric))
    assert found.value == pytest.approx((other.score(metric).value or 0) - (one.score(metric).value or 0))


def test_nothing_to_compare_is_no_difference() -> None:
    assert compare_shares((0, 0), (3, 4)).value is None
    assert compare_means(Sample(0), Sample.of([1.0])).value is None
    assert compare_means(Sample.of([1.0]), Sample.of([2.0])).low is None
    alone = compare_means(Sample.of([1.0]), Sample.of([2.0, 4.0, 6.0]))
    assert (alone.value, alone.n, alone.low, alone.p) == (3.0, 1, None, None), "one number has no spread"


def test_means_of_values_that_do_not_vary_are_not_judged() -> None:
    found = compare_means(Sample.of([30.0, 30.0]), Sample.of([31.0, 31.0]))
    assert (found.value, found.low, found.high, found.p) == (1.0, None, None, None)
    assert compare_means(Sample.of([30.0, 30.0]), Sample.of([30.0, 30.0])).p == 1.0


def test_an_average_over_one_task_has_agresti_and_caffos_interval() -> None:
    found = average_differences([((1, 30), (9, 25))])
    assert (found.value, found.n) == (pytest.approx(9 / 25 - 1 / 30), 25)
    peer = confint_proportions_2indep(9, 25, 1, 30, method="agresti-caffo")
    assert (found.low, found.high) == pytest.approx(peer)


def test_an_average_over_tasks_is_of_the_tasks_differences_and_as_sure_as_independent_ones() -> None:
    shares = [((1, 30), (9, 25)), ((18, 40), (20, 40)), ((0, 10), (3, 12))]
    found = average_differences(shares)
    single = [average_differences([one]) for one in shares]
    assert found.value == pytest.approx(np.mean([one.value for one in single]))
    middle = np.mean([(one.low + one.high) / 2 for one in single])  # type: ignore[operator]
    reach = np.sqrt(sum(((one.high - one.low) / 2) ** 2 for one in single)) / 3  # type: ignore[operator]
    assert (found.low, found.high, found.n) == (pytest.approx(middle - reach), pytest.approx(middle + reach), 75)
    assert found.p == pytest.approx(2 * stats.norm.sf(middle / (reach / stats.norm.ppf(0.975))))
    assert average_differences([*shares, ((0, 0), (3, 4))]).value is None
