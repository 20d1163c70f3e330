"""The time left follows the pace of the last minutes."""

from __future__ import annotations

import pytest

from rbench.system.progress import PACE_WINDOW, StepPace
from tests.clock import ManualClock


def walked(*paces: tuple[int, float], begun: int = 0) -> tuple[StepPace, int]:
    """A job that did so many steps at so many seconds each, one pace after the other; and the steps done."""
    clock, done = ManualClock(), begun
    pace = StepPace(clock)
    pace.update(done)
    for steps, seconds in paces:
        for _ in range(steps):
            clock.now += seconds
            done += 1
            pace.update(done)
    return pace, done


def test_a_steady_job_is_extrapolated_from_where_it_was_taken_up() -> None:
    pace, done = walked((30, 2.0), begun=50)
    assert pace.left(done, 100) == pytest.approx(2.0 * 20)


def test_a_job_that_slows_down_is_judged_by_its_new_pace() -> None:
    """125 clean steps of 2 seconds, then adversarial ones of 26: the mean would promise a third of the time."""
    pace, done = walked((125, 2.0), (25, 26.0))
    left = pace.left(done, 375)
    assert left is not None and left == pytest.approx(26.0 * 225, rel=0.1)


def test_a_job_that_gets_faster_is_judged_by_its_new_pace_too() -> None:
    pace, done = walked((20, 60.0), (400, 1.0))
    left = pace.left(done, 1000)
    assert left is not None and left == pytest.approx(1.0 * 580, rel=0.05)


def test_nothing_is_promised_before_a_step_was_done_or_while_none_is() -> None:
    pace, done = walked(begun=7)
    assert pace.left(done, 10) is None
    clock = ManualClock()
    stuck = StepPace(clock)
    for second in range(int(2 * PACE_WINDOW)):
        clock.now = second
        stuck.update(3 if second else 0)
    assert stuck.left(3, 10) is None


def test_what_is_loaded_before_the_first_step_is_not_expected_again() -> None:
    pace, done = walked((1, 50.0))
    assert pace.left(done, 100) is None
    pace, done = walked((1, 50.0), (4, 0.5))
    assert pace.left(done, 100) == pytest.approx(0.5 * 95)


def test_few_points_are_kept() -> None:
    pace, _ = walked((20_000, 0.01), (300, 5.0))
    assert len(pace._points) < 70


def test_the_next_job_starts_afresh() -> None:
    pace, _ = walked((100, 1.0))
    pace.restart()
    assert pace.left(100, 200) is None
