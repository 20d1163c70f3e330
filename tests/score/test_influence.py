"""Compares what each pair adds to Spearman's correlation with derivatives, scipy and bootstraps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from rbench.score import spearman_values
from rbench.score.subsets import standard_error

SMALL = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30)


def drawn(n: int, r: float, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    both = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, r], [r, 1]], size=n)
    return both[:, 0], np.round(both[:, 1], 1)


def weighted(x: NDArray[Any], y: NDArray[Any], weights: NDArray[Any]) -> float:
    """Spearman's correlation where each pair has a weight, by plain loops."""
    ranks = [
        np.array([sum(w for w, b in zip(weights, own, strict=True) if b < a) for a in own])
        + np.array([sum(w for w, b in zip(weights, own, strict=True) if b == a) / 2 for a in own])
        for own in (x, y)
    ]
    a, b = (one - np.average(one, weights=weights) for one in ranks)
    return float(np.sum(weights * a * b) / np.sqrt(np.sum(weights * a * a) * np.sum(weights * b * b)))


def test_a_value_is_the_derivative_by_the_weight_of_its_pair() -> None:
    x, y = drawn(12, 0.6)
    x[:3] = x[0]
    values, little = spearman_values(x, y), 1e-6
    assert values is not None
    coefficient = weighted(x, y, np.full(12, 1 / 12))
    for i in range(12):
        more = (1 - little) / 12 + little * (np.arange(12) == i)
        assert values[i] - coefficient == pytest.approx((weighted(x, y, more) - coefficient) / little, abs=1e-4)


@given(SMALL)
def test_the_mean_of_the_values_is_the_correlation(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    values = spearman_values(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert values is None
    else:
        assert values is not None and values.mean() == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)


def test_nothing_has_no_correlation() -> None:
    assert spearman_values([], []) is None and standard_error([], []) is None and standard_error([1, 1], [1, 2]) is None


@pytest.mark.parametrize(("n", "r"), [(100, 0.2), pytest.param(300, 0.85, marks=pytest.mark.nightly)])
def test_the_standard_error_is_that_of_a_bootstrap(n: int, r: float) -> None:
    x, y = drawn(n, r)
    drawings = np.random.default_rng(1).integers(0, n, (1500, n))
    bootstrap = np.std([stats.spearmanr(x[i], y[i]).statistic for i in drawings], ddof=1)
    assert standard_error(x, y) == pytest.approx(bootstrap, rel=0.08)


@pytest.mark.nightly
def test_the_error_of_a_paired_difference_is_that_of_a_paired_bootstrap() -> None:
    n = 300
    x, y = drawn(n, 0.7)
    other = x + 0.3 * np.random.default_rng(2).normal(size=n)
    one, two = spearman_values(x, y), spearman_values(other, y)
    assert one is not None and two is not None
    error = (two - one).std(ddof=1) / np.sqrt(n)
    found = []
    for i in np.random.default_rng(1).integers(0, n, (1500, n)):
        found.append(stats.spearmanr(other[i], y[i]).statistic - stats.spearmanr(x[i], y[i]).statistic)
    assert error == pytest.approx(np.std(found, ddof=1), rel=0.08)
    apart = np.hypot(*(own.std(ddof=1) / np.sqrt(n) for own in (one, two)))
    assert error < apart / 2, "which is why encoders are compared pair by pair"
