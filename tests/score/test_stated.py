"""Weighted sums of numbers that are known by their intervals alone."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from rbench.score.paired import ReportedNumber, combine_reported

Z = stats.norm.ppf(0.975)


def term(weight: float, value: float, error: float, group: tuple[int, str, str], **more: float) -> ReportedNumber:
    ends = (value - Z * error, value + Z * error)
    return ReportedNumber(value, 50, *ends, weight=weight, group=group, **more)  # type: ignore[arg-type]


def test_two_encoders_are_independent() -> None:
    found = combine_reported([term(1, 0.5, 0.03, (0, "a", "t")), term(-1, 0.4, 0.04, (1, "b", "t"))], bound=0.02)
    assert found.value == pytest.approx(0.1) and found.n == 50
    assert (found.low, found.high) == pytest.approx((0.1 - Z * 0.05, 0.1 + Z * 0.05))
    assert found.p == pytest.approx(2 * stats.norm.sf(0.08 / 0.05))


def test_attacks_on_one_victim_may_err_together_and_tasks_do_not() -> None:
    same = combine_reported([term(0.5, 0.5, 0.04, (0, "a", "t")), term(0.5, 0.5, 0.04, (0, "a", "t"))])
    apart = combine_reported([term(0.5, 0.5, 0.04, (0, "a", "t")), term(0.5, 0.5, 0.04, (0, "a", "u"))])
    assert same.high == pytest.approx(0.5 + Z * 0.04)
    assert apart.high == pytest.approx(0.5 + Z * 0.04 / math.sqrt(2))


def test_one_number_keeps_its_own_uneven_interval_and_p_agrees_with_it() -> None:
    one = ReportedNumber(0.9, 30, 0.75, 0.96)
    assert (found := combine_reported([one])).low == pytest.approx(0.75) and found.high == pytest.approx(0.96)
    assert combine_reported([one], bound=0.7501).p > 0.05 > combine_reported([one], bound=0.7499).p  # type: ignore[operator]
    assert combine_reported([one], bound=0.9599).p > 0.05 > combine_reported([one], bound=0.9601).p  # type: ignore[operator]


def test_the_upper_limit_of_a_number_that_is_taken_off_lowers_a_difference() -> None:
    """Zou and Donner (2008): each limit is that of the first number, and the opposite one of the second."""
    one = ReportedNumber(0.5, 30, 0.4, 0.7, group=(0, "a", "t"))
    other = ReportedNumber(0.3, 30, 0.28, 0.5, weight=-1.0, group=(1, "b", "t"))
    found = combine_reported([one, other])
    assert found.low == pytest.approx(0.2 - math.hypot(0.5 - 0.4, 0.5 - 0.3), rel=1e-6)
    assert found.high == pytest.approx(0.2 + math.hypot(0.7 - 0.5, 0.3 - 0.28), rel=1e-6)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.56), (0.44, 0.8)])
def test_p_has_the_degrees_of_freedom_of_the_side_on_which_the_bound_lies(low: float, high: float) -> None:
    """With trainings, the shorter side of an uneven interval has fewer degrees of freedom than the longer one."""
    one = ReportedNumber(0.5, 30, low, high, trainings=3, train_sd=0.1)
    found = combine_reported([one])
    assert found.low is not None and found.high is not None
    for limit in (found.low, found.high):
        assert combine_reported([one], bound=limit).p == pytest.approx(0.05)


def test_the_spread_of_trainings_is_a_part_of_its_own() -> None:
    found = combine_reported([term(1, 0.5, 1e-9, (0, "a", "t"), trainings=3, train_sd=0.06)], bound=0.4)
    error = 0.06 / math.sqrt(3)
    assert found.high == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error, rel=1e-4)
    assert found.p == pytest.approx(2 * stats.t.sf(0.1 / error, 2), rel=1e-4)
    assert found.trainings == (3, 1)


def test_the_spread_of_fine_tuning_seeds_is_a_part_of_each_victim() -> None:
    one = term(0.5, 0.5, 1e-9, (0, "a", "t"), seeds=3, seed_sd=0.06)
    error = 0.06 / math.sqrt(3)
    alone = combine_reported([one._replace(weight=1)], bound=0.4)
    assert alone.high == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error, rel=1e-4)
    tasks = combine_reported([one, one._replace(group=(0, "a", "u"))])
    assert tasks.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 4) * error / math.sqrt(2), rel=1e-4)
    attacks = combine_reported([one, one])
    assert attacks.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 2) * error, rel=1e-4), "of one victim"


def test_the_spread_of_trainings_has_that_of_seeds_in_it() -> None:
    trained = term(1, 0.5, 0.01, (0, "a", "t"), trainings=3, train_sd=0.06)
    assert combine_reported([trained._replace(seeds=2, seed_sd=0.5)]) == combine_reported([trained])


def test_the_trainings_of_an_encoder_move_all_of_its_tasks_together() -> None:
    one = term(0.5, 0.5, 1e-9, (0, "a", "t"), trainings=3, train_sd=0.06)
    tasks = combine_reported([one, one._replace(group=(0, "a", "u"))])
    assert tasks.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 2) * 0.06 / math.sqrt(3), rel=1e-4)  # type: ignore[operator]
    encoders = combine_reported([one, one._replace(group=(1, "b", "t"))])
    assert encoders.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 4) * 0.06 / math.sqrt(6), rel=1e-4)  # type: ignore[operator]


@pytest.mark.parametrize(("low", "high"), [(0.45, 0.62), (0.38, 0.55)])
def test_the_smallest_difference_goes_by_the_longer_side_of_the_interval(low: float, high: float) -> None:
    found = combine_reported([ReportedNumber(0.5, 30, low, high)])
    assert found.smallest == pytest.approx((Z + stats.norm.ppf(0.8)) * 0.12 / Z, rel=1e-3)
