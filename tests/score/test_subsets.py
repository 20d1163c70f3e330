"""Compares scores of subsets and averages with plain loops, scipy and a joint bootstrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from rbench.schema import Score
from rbench.score import sts_scores
from rbench.score.subsets import (
    average_correlations,
    average_over_trainings,
    set_scores,
    standard_error,
    subset_score_name,
)


def drawn(n: int, r: float, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cosines without ties and gold scores with many, (n,) each."""
    both = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, r], [r, 1]], size=n)
    return both[:, 0], np.round(both[:, 1], 1)


def test_a_set_has_the_correlations_of_all_pairs_and_of_each_subset() -> None:
    x, y = drawn(30, 0.7)
    names = ["b" if i % 3 else "a" for i in range(30)]
    scores = {score.name: score for score in set_scores(x, y, names)}
    assert list(scores) == ["spearman", "pearson", "spearman:a", "pearson:a", "spearman:b", "pearson:b"]
    for subset in (None, "a", "b"):
        own = [i for i, name in enumerate(names) if subset in (None, name)]
        rank, linear = (name if subset is None else subset_score_name(name, subset) for name in ("spearman", "pearson"))
        assert scores[rank].value == pytest.approx(stats.spearmanr(x[own], y[own]).statistic, abs=1e-9)
        assert scores[linear].value == pytest.approx(stats.pearsonr(x[own], y[own]).statistic, abs=1e-9)
        assert scores[rank].n == len(own)
        error = standard_error(x[own], y[own])
        assert error is not None and scores[rank].sd == pytest.approx(error * math.sqrt(len(own)))
        plain = sts_scores(x[own], y[own])[0]
        assert (scores[rank].low, scores[rank].high) == (plain.low, plain.high), "the interval stays Fisher's"
    assert [score.name for score in set_scores(x, y)] == ["spearman", "pearson"]


def test_a_subset_without_a_correlation_has_no_value_and_the_others_have() -> None:
    x, y = drawn(20, 0.7)
    y[:5] = 3.0
    scores = {score.name: score for score in set_scores(x, y, ["same"] * 5 + ["rest"] * 15)}
    assert scores["spearman:same"].value is None and scores["spearman:same"].n == 5
    assert scores["spearman:rest"].value is not None and scores["spearman"].value is not None
    mean = average_correlations([scores["spearman:same"], scores["spearman:rest"]])
    assert (mean.value, mean.low, mean.n) == (None, None, 20), "never a mean of those that are left"


def score(value: float, n: int, error: float | None) -> Score:
    return Score(name="spearman", value=value, n=n, sd=None if error is None else error * math.sqrt(n))


def test_averages_are_plain_or_weighted_by_pairs() -> None:
    both = [score(0.5, 100, 0.03), score(0.8, 300, 0.01)]
    plain, weighted = average_correlations(both), average_correlations(both, by_size=True)
    assert plain.value == pytest.approx(0.65) and weighted.value == pytest.approx((0.5 + 3 * 0.8) / 4)
    assert plain.n == weighted.n == 400
    for found, weights in ((plain, (0.5, 0.5)), (weighted, (0.25, 0.75))):
        error = math.hypot(weights[0] * 0.03, weights[1] * 0.01)
        assert found.value is not None and found.low is not None and found.high is not None and found.sd is not None
        assert found.sd / math.sqrt(400) == pytest.approx(error)
        assert found.high - found.low == pytest.approx(2 * 1.959964 * error, rel=0.01)
        assert found.low < found.value < found.high
    assert average_correlations([plain, plain]).sd is not None, "an average can be averaged"
    lacking = average_correlations([*both, score(0.9, 50, None)])
    assert lacking.value == pytest.approx((0.5 + 0.8 + 0.9) / 3) and lacking.low is lacking.high is lacking.sd is None


def test_the_interval_of_an_average_is_that_of_a_bootstrap_of_all_sets() -> None:
    sets = [drawn(n, r, seed) for seed, (n, r) in enumerate([(150, 0.3), (300, 0.6), (200, 0.8)])]
    mean = average_correlations([set_scores(x, y)[0] for x, y in sets])
    generator = np.random.default_rng(5)
    found = []
    for _ in range(200):
        values = []
        for x, y in sets:
            i = generator.integers(0, len(x), len(x))
            values.append(stats.spearmanr(x[i], y[i]).statistic)
        found.append(np.mean(values))
    assert (mean.low, mean.high) == pytest.approx(tuple(np.quantile(found, [0.025, 0.975])), abs=0.025)


def test_the_mean_over_trainings_is_as_wide_as_one() -> None:
    trained = [score(0.6, 100, 0.02), score(0.7, 100, 0.04), Score(name="spearman", value=None, n=100)]
    mean = average_over_trainings(trained)
    assert mean.value == pytest.approx(0.65) and mean.n == 100
    assert mean.sd is not None and mean.sd / 10 == pytest.approx(0.03)
    assert average_over_trainings(trained[:1]) == trained[0]
    assert average_over_trainings([score(0.6, 9, 0.1), score(0.7, 9, None)]).low is None
