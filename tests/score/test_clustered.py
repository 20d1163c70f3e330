"""Clustered differences: as statsmodels and scipy compute them, and as a bootstrap by hand."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from rbench.score.clustered import compare_clustered


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    clusters = np.repeat(np.arange(60), random.integers(1, 9, 60))
    alike = random.normal(0, 0.6, 60)[clusters]
    one = random.normal(0, 1, len(clusters))
    return one, one + 0.1 + alike + random.normal(0, 0.5, len(clusters)), clusters


def test_it_equals_statsmodels(sample: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    one, other, clusters = sample
    found = compare_clustered(one, other, clusters)
    fit = sm.OLS(other - one, np.ones(len(one))).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    assert found.value == pytest.approx(fit.params[0]) and found.p == pytest.approx(fit.pvalues[0], rel=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)


def test_clusters_of_one_item_are_a_paired_t_test(sample: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    one, other, _ = sample
    found = compare_clustered(one, other, np.arange(len(one)))
    expected = stats.ttest_rel(other, one)
    interval = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_a_bootstrap_of_clusters_by_hand_agrees(sample: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    one, other, clusters = sample
    random, differences = np.random.default_rng(1), other - one
    own = [differences[clusters == cluster] for cluster in np.unique(clusters)]
    means = [np.concatenate([own[i] for i in random.integers(0, len(own), len(own))]).mean() for _ in range(4000)]
    found = compare_clustered(one, other, clusters)
    assert found.low is not None and found.high is not None
    assert np.percentile(means, [2.5, 97.5]) == pytest.approx([found.low, found.high], abs=0.02)
    independent = stats.ttest_rel(other, one).confidence_interval()
    assert found.high - found.low > 1.3 * (independent.high - independent.low), "items of a cluster are alike"


def test_what_so_many_clusters_could_show_is_seen_in_four_of_five_samples() -> None:
    random, clusters = np.random.default_rng(3), np.repeat(np.arange(40), 5)

    def drawn(away: float) -> tuple[np.ndarray, np.ndarray]:
        one = random.normal(0, 1, 200)
        return one, one + away + random.normal(0, 1, 40)[clusters] + random.normal(0, 1, 200)

    smallest = np.mean([compare_clustered(*drawn(0), clusters).smallest for _ in range(40)])
    seen = np.mean([(compare_clustered(*drawn(smallest), clusters).p or 0) < 0.05 for _ in range(600)])
    assert seen == pytest.approx(0.8, abs=0.05)


def test_one_cluster_tells_nothing_of_others() -> None:
    found = compare_clustered(np.zeros(4), np.ones(4), np.zeros(4, dtype=np.int64))
    assert (found.value, found.n, found.p, found.low) == (1.0, 4, None, None)
