"""Budget curves and their areas, against slow sums."""

from __future__ import annotations

import itertools
import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rbench.score import wilson
from rbench.score.budget import RANGE_START, RESAMPLES, AttackCost, BudgetKind, SuccessCurve, common_range_end

spent = st.lists(st.tuples(st.booleans(), st.integers(2, 400)), min_size=1, max_size=30)


def curve(rows: list[tuple[bool, float]], by: BudgetKind = "queries") -> SuccessCurve:
    return SuccessCurve(by, tuple(AttackCost(f"test:{i}", *row) for i, row in enumerate(rows)))


def by_hand() -> SuccessCurve:
    return curve([(True, 10), (True, 100), (True, 10), (False, 1000)])


def test_by_hand() -> None:
    found = by_hand()
    assert [found.at(budget).value for budget in (1, 9, 10, 99, 100, 1000)] == [0, 0, 0.5, 0.5, 0.75, 0.75]
    assert (found.at(50).low, found.at(50).high) == wilson(2, 4)
    assert (found.n, found.steps, found.most) == (4, (10, 100), 1000)
    # On the scale of logarithms 1, 10, 100, 1000 are equally far: heights 0, 0.5 and 0.75.
    assert found.area(1000).value == pytest.approx((0 + 0.5 + 0.75) / 3)
    assert found.area(10).value == 0
    assert curve([(True, 1), (True, 3), (False, 9)], "words").area(4).value == pytest.approx((2 * 1 + 1 * 2) / 12)
    assert curve([(True, 0.25), (False, 0)], "share").area(1).value == pytest.approx(0.375)


@given(spent, st.sampled_from(["queries", "words"]))
def test_a_curve_rises_to_the_success_rate(rows: list[tuple[bool, float]], by: BudgetKind) -> None:
    found = curve(rows, by)
    heights = [found.at(budget).value for budget in range(402)]
    assert heights == sorted(heights)
    assert heights[int(RANGE_START[by])] == 0
    assert heights[-1] == found.at(found.most).value == sum(fell for fell, _ in rows) / len(rows)
    assert all(height == sum(f and cost <= q for f, cost in rows) / len(rows) for q, height in enumerate(heights))


@settings(deadline=None, max_examples=30)
@given(spent, st.integers(2, 500), st.sampled_from(get_args(BudgetKind)))
def test_an_area_is_the_mean_height(rows: list[tuple[bool, float]], top: float, by: BudgetKind) -> None:
    scaled = [(fell, cost / 400) for fell, cost in rows] if by == "share" else rows
    found, top = curve(scaled, by), 1 if by == "share" else top
    edges = sorted({RANGE_START[by], float(top), *(cost for cost in found.steps if cost < top)})
    scale = math.log if by == "queries" else float
    pieces = [found.at(a).value * (scale(b) - scale(a)) for a, b in itertools.pairwise(edges)]
    area = found.area(top)
    assert area.value == pytest.approx(sum(pieces) / (scale(top) - scale(RANGE_START[by])))
    assert 0 <= area.value <= 1
    assert area.low is None or 0 <= area.low <= area.high <= 1


def test_the_bootstrap_interval_is_that_of_the_mean_over_examples() -> None:
    rng = np.random.default_rng(3)
    rows = [(bool(rng.random() < 0.7), float(rng.integers(2, 300))) for _ in range(200)]
    area = curve(rows).area(300)
    left = np.array([math.log(300 / cost) / math.log(300) if fell else 0.0 for fell, cost in rows])
    found = stats.bootstrap(
        (left,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert (area.low, area.high) == pytest.approx(found, abs=0.006)
    assert curve(rows).area(300) == area, "the same outcomes have the same interval"


def test_examples_are_drawn_with_all_their_trainings() -> None:
    rows = [(i % 3 > 0, 10.0 + i) for i in range(60)]
    once = curve(rows)
    thrice = SuccessCurve("queries", once.spent * 3, repeats=3)
    assert thrice.at(40).model_dump(exclude={"n"}) == once.at(40).model_dump(exclude={"n"})
    assert (thrice.area(100).low, thrice.area(100).high) == pytest.approx((once.area(100).low, once.area(100).high))


def test_where_there_is_nothing_to_say() -> None:
    empty = curve([])
    assert (empty.at(5).value, empty.at(5).low, empty.area(5).value, empty.most) == (None, None, None, 1)
    alike = curve([(True, 10), (True, 10)]).area(100)
    assert (alike.value, alike.low, alike.high) == (pytest.approx(0.5), None, None)


def test_areas_that_are_compared_have_one_range() -> None:
    assert common_range_end([by_hand(), curve([(True, 2000)])]) == 2000
    assert common_range_end([]) == 0
    assert curve([(True, 3), (False, 9)], "words").most == 4, "what a failure changed was changed in vain"
    assert curve([(True, 0.1)], "share").most == 1
