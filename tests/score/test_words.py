"""Bounds of the words that texts need, and the median of values that are censored."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from rbench.score.words import FewestWords, censored_median


def test_bounds_over_several_attacks() -> None:
    fell = np.array([[True, False, False, True], [True, True, False, False]])
    words = np.array([[4, 2, 0, 1], [3, 2, 5, 0]])
    robust = np.array([[np.nan] * 4, [1.0, 1.0, 2.0, 0.0]])
    found = FewestWords.of(fell, words, robust)
    assert found.found.tolist() == [3.0, 2.0, math.inf, 1.0]
    assert found.proved.tolist() == [2.0, 2.0, 3.0, 1.0]
    assert found.within(2).tolist() == [False, True, False, True]
    assert [found.is_exact(words) for words in (1, 2, 3)] == [True, False, False], "the first may fall with 2 words"
    assert found.exact_to(5) == 1
    assert found.proved_mean(5) == (2 + 2 + 3 + 1) / 4


def test_without_a_complete_search_nothing_is_proved_beyond_a_word() -> None:
    found = FewestWords.of(np.array([[True, False, True]]), np.array([[2, 0, 0]]), np.full((1, 3), np.nan))
    assert found.proved.tolist() == [1.0, 1.0, 1.0] and found.exact_to(5) == 0
    assert found.found.tolist() == [2.0, math.inf, 1.0], "a change of no whole word is one of a word"


def test_no_lower_bound_is_above_what_was_found_in_another_space() -> None:
    found = FewestWords.of(np.array([[False], [True]]), np.array([[0], [1]]), np.array([[2.0], [np.nan]]))
    assert found.proved.tolist() == found.found.tolist() == [1.0]


@pytest.mark.parametrize("n", [6, 9, 40, 217])
def test_the_interval_of_the_median_is_between_order_statistics(n: int) -> None:
    values = np.sort(np.random.default_rng(n).geometric(0.4, n).astype(float))
    values[values > 4] = math.inf
    rank = int(binom.ppf(0.025, n, 0.5))  # the largest r with P(X < r) <= 0.025
    median = censored_median(values[::-1])
    assert median == (values[(n - 1) // 2], values[rank - 1], values[n - rank])
    assert binom.cdf(rank - 1, n, 0.5) <= 0.025 < binom.cdf(rank, n, 0.5)


def test_few_values_and_repeated_ones() -> None:
    assert censored_median(np.array([])) is None
    assert censored_median(np.array([2.0, 3.0, 1.0])) == (2.0, 1.0, math.inf)
    values = np.arange(1.0, 61.0)
    once, thrice = censored_median(values), censored_median(np.repeat(values, 3), repeats=3.0)
    assert once is not None and thrice is not None
    assert once == pytest.approx(thrice, abs=1.0), "each text counts once, however many seeds attacked it"
    unknown = censored_median(np.array([1.0] * 20 + [math.inf] * 30))
    assert unknown is not None and math.isinf(unknown[0])
