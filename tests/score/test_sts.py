"""Compares correlations with slow formulas, scipy and simulations. An undefined correlation has no value."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from rbench.errors import JobError
from rbench.schema import Score
from rbench.score import StsPairs, mean_correlation, similarities, sts_scores
from rbench.tasks import Example


def ranks(values: list[float]) -> list[float]:
    """Ranks from 1; of equal values each has the mean of their ranks."""
    return [sum(v < x for v in values) + (1 + sum(v == x for v in values)) / 2 for x in values]


def correlation(x: list[float], y: list[float]) -> float:
    """Pearson's, from the definition."""
    mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
    over = math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return over / math.sqrt(math.fsum((a - mx) ** 2 for a in x) * math.fsum((b - my) ** 2 for b in y))


cosine = st.integers(-1000, 1000).map(lambda k: k / 1000)
gold = st.integers(0, 50).map(lambda k: k / 10)


@given(st.lists(st.tuples(cosine, gold), min_size=4, max_size=30))
def test_correlations_are_those_of_the_definitions(rows: list[tuple[float, float]]) -> None:
    x, y = [a for a, _ in rows], [b for _, b in rows]
    spearman, pearson = sts_scores(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert spearman.value is pearson.value is None
        return
    assert spearman.value == pytest.approx(correlation(ranks(x), ranks(y)), abs=1e-9)
    assert pearson.value == pytest.approx(correlation(x, y), abs=1e-9)
    assert (spearman.name, pearson.name, spearman.n) == ("spearman", "pearson", len(rows))
    for score in (spearman, pearson):
        if score.low is not None and score.high is not None and score.value is not None:
            assert -1 <= score.low < score.value < score.high <= 1


def drawn(n: int, r: float, seed: int) -> NDArray[Any]:
    """Two columns (n, 2) of normal numbers with correlation `r`."""
    generator = np.random.default_rng(seed)
    return generator.multivariate_normal([0, 0], [[1, r], [r, 1]], size=n)


def test_the_interval_of_pearson_is_that_of_scipy() -> None:
    x, y = drawn(50, 0.6, 0).T
    score = sts_scores(x, y)[1]
    assert (score.low, score.high) == pytest.approx(stats.pearsonr(x, y).confidence_interval())


@pytest.mark.parametrize("r", [pytest.param(0.2, marks=pytest.mark.nightly), 0.8])
def test_the_interval_of_spearman_is_that_of_a_bootstrap(r: float) -> None:
    data = drawn(400, r, 1)
    score = sts_scores(*data.T)[0]
    found = stats.bootstrap(
        data.T,
        lambda x, y: stats.spearmanr(x, y).statistic,
        paired=True,
        vectorized=False,
        n_resamples=500,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert (score.low, score.high) == pytest.approx((found.low, found.high), abs=0.02)


def test_the_mean_over_encoders_is_as_wide_as_one() -> None:
    scored = [sts_scores(*drawn(80, r, seed).T) for seed, r in enumerate((0.5, 0.8))]
    for which, name in enumerate(("spearman", "pearson")):
        scores = [pair[which] for pair in scored]
        r = float(np.mean([score.value for score in scores]))  # type: ignore[arg-type]
        error = math.sqrt((1 + r**2 / 2 if name == "spearman" else 1) / 77)
        found = mean_correlation([*scores, Score(name=name, value=None, n=80)])
        assert (found.name, found.value, found.n) == (name, pytest.approx(r), 80)
        ends = [math.tanh(math.atanh(r) + z * error) for z in stats.norm.ppf([0.025, 0.975])]
        assert (found.low, found.high) == pytest.approx(ends)


@pytest.mark.parametrize("r", [pytest.param(0.3, marks=pytest.mark.nightly), 0.85])
def test_confidence_intervals_of_95_percent_hold_the_truth_in_95_percent_of_cases(r: float) -> None:
    truth = 6 / math.pi * math.asin(r / 2)  # Spearman's coefficient of a normal distribution (Kruskal 1958)
    scores = [sts_scores(*drawn(60, r, seed).T)[0] for seed in range(400)]
    held = sum(s.low < truth < s.high for s in scores if s.low is not None and s.high is not None)
    assert 0.925 < held / 400 < 0.975  # the standard error of the share is 0.011


def test_a_perfect_order_has_a_value_and_no_interval() -> None:
    spearman, pearson = sts_scores([0.1, 0.2, 0.3, 0.9], [1, 2, 3, 4])
    assert (spearman.value, spearman.low, spearman.high) == (1.0, None, None)
    assert pearson.value is not None and pearson.value < 1 and pearson.low is not None
    assert sts_scores([0.1, 0.2, 0.3, 0.9], [4, 3, 2, 1])[0].value == -1.0


@pytest.mark.parametrize(
    ("predicted", "wanted"),
    [
        ([], []),
        ([0.1, 0.2, 0.3], [1, 2, 3]),
        ([0.5] * 9, list(range(9))),
        ([0.9999999, 1.0, 0.99999995, 0.9999998, 1.0], [1, 2, 3, 4, 5]),  # one vector for all texts, in float32
        (list(range(9)), [3.0] * 9),
    ],
)
def test_what_is_not_defined_has_no_value(predicted: list[float], wanted: list[float]) -> None:
    for score in sts_scores(predicted, wanted):
        assert (score.value, score.n, score.low, score.high) == (None, len(predicted), None, None)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError):
        sts_scores([0.1, float("nan"), 0.2, 0.3], [1, 2, 3, 4])
    with pytest.raises(JobError):
        similarities(np.array([[1.0, np.nan]]), np.array([[1.0, 1.0]]))


def test_cosines_are_those_of_the_definition() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 7, 5)).astype(np.float32)
    expected = [
        sum(float(a) * float(b) for a, b in zip(x, y, strict=True)) / (math.hypot(*x) * math.hypot(*y))
        for x, y in zip(first, second, strict=True)
    ]
    np.testing.assert_allclose(similarities(first, second), expected, atol=1e-6)
    zero = np.zeros_like(first)
    assert similarities(first, zero).tolist() == [0.0] * 7
    assert np.abs(similarities(1e30 * first.astype(np.float64), first)).max() <= 1


def test_pairs_have_each_text_encoded_once() -> None:
    examples = [Example(f"{i}", (a, b), float(i)) for i, (a, b) in enumerate(["ab", "ba", "cc", "ac", "db"])]
    asked: list[list[str]] = []
    place = {"a": (1.0, 0.0), "b": (0.6, 0.8), "c": (0.0, 1.0), "d": (-1.0, 0.2)}

    def encode(texts: list[str]) -> NDArray[Any]:
        asked.append(texts)
        return np.array([place[text] for text in texts])

    pairs = StsPairs.of(examples)
    spearman, _ = pairs.scores(encode)
    assert sorted(asked[0]) == ["a", "b", "c", "d"] and len(asked) == 1
    by_hand = [0.6, 0.6, 1.0, 0.0, (-0.6 + 0.16) / math.hypot(1, 0.2)]
    assert spearman.value == pytest.approx(stats.spearmanr(by_hand, range(5)).statistic)


@pytest.mark.nightly
def test_scores_import_no_scipy_stats_until_they_are_computed() -> None:
    code = "import sys, rbench.score; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
