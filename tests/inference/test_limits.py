"""Tests that a job ends when it has used its own seconds, and that the others of its pool go on."""

from __future__ import annotations

import time

import pytest

from rbench.inference import Batched, TimedOut, clock, limited, run


def test_without_a_limit_nothing_ends() -> None:
    ask: Batched[int, int] = Batched(lambda keys: keys)
    with limited(None, clock):
        assert ask([1]) == [1]
    assert ask([2]) == [2]


@pytest.mark.parametrize("width", [1, 2])
def test_a_job_that_is_over_its_limit_ends_at_its_next_question(width: int) -> None:
    asked: list[int] = []

    def compute(keys: list[int]) -> list[int]:
        asked.extend(keys)
        time.sleep(0.02)
        return keys

    ask: Batched[int, int] = Batched(compute)

    def job(limit: float | None, first: int) -> str:
        try:
            with limited(limit, clock):
                for key in range(first, first + 4):
                    ask([key])
        except TimedOut as error:
            return str(error)
        return "ended"

    ended = list(run([lambda: job(0.001, 10), lambda: job(None, 20), lambda: job(60.0, 30)], width))
    assert sorted(ended) == ["ended", "ended", "it took longer than 0.001 s (--max-seconds)"]
    assert [key for key in asked if key < 20] == [10], "the first question is answered, and the second not asked"
    assert ask([40]) == [40], "the limit ends with its block"


def test_a_job_is_not_charged_for_the_questions_of_others() -> None:
    def compute(keys: list[int]) -> list[int]:
        time.sleep(0.004 * len(keys))
        return keys

    ask: Batched[int, int] = Batched(compute)

    def job(keys: int, first: int) -> bool:
        try:
            with limited(0.1, clock):
                for step in range(8):
                    ask(list(range(first + keys * step, first + keys * (step + 1))))
        except TimedOut:
            return False
        return True

    # Of the 0.32 s that both take together the first uses a tenth.
    found = dict(run([lambda: ("small", job(1, 0)), lambda: ("large", job(9, 1000))], 2))
    assert found == {"small": True, "large": False}
