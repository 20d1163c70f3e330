"""Tests models elsewhere: jobs go on while others wait, no key is asked twice at once, and failures reach the jobs."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest

from rbench.encoders.inference import BatchedModel, RemoteModel, run_jobs

JOBS = range(16)


class Elsewhere:
    """Squares numbers, and counts what it is asked and how many batches are under way."""

    def __init__(self, together: int = 1) -> None:
        self.asked: Counter[int] = Counter()
        self.gate = threading.Barrier(together)
        self.lock = threading.Lock()
        self.stopped = 0

    def __call__(self, keys: list[int]) -> list[int]:
        with self.lock:
            self.asked.update(keys)
        if self.gate.parties > 1:
            self.gate.wait(timeout=20)
        if 13 in keys:
            raise ValueError("thirteen")
        return [key * key for key in keys]

    def stop(self) -> None:
        self.stopped += 1


def chain(model: Any, start: int, local: Any = None) -> Any:
    """A job that asks for numbers one after the other, and draws at random between them."""

    def job() -> tuple[int, list[int], list[float]]:
        random.seed(start)
        found, drawn = [], []
        for step in range(4):
            found += model([100 * start + step, 7])
            drawn.append(random.random())
            if local is not None:
                found += local([step])
        return start, found, drawn

    return job


@pytest.mark.parametrize("width", [1, 3, 16])
def test_jobs_get_their_answers_and_their_own_random_numbers(width: int) -> None:
    behind, here = Elsewhere(), Elsewhere()
    remote, local = RemoteModel(behind, behind.stop), BatchedModel(here)
    found = sorted(run_jobs([chain(remote, i, local) for i in JOBS], width))
    assert found == [chain(lambda keys: [k * k for k in keys], i, lambda keys: [k * k for k in keys])() for i in JOBS]
    assert behind.stopped == 0
    assert all(count == 1 for key, count in behind.asked.items() if key != 7)


def test_several_batches_are_under_way_at_once() -> None:
    """The first batches are answered only together: with one batch at a time the barrier would break."""
    behind = Elsewhere(together=2)
    remote = RemoteModel(behind, behind.stop)
    jobs = [lambda i=i: remote([i]) for i in range(8)]
    assert sorted(value for (value,) in run_jobs(jobs, 8)) == [i * i for i in range(8)]


def test_a_key_under_way_is_not_asked_for_again() -> None:
    go = threading.Event()
    asked: Counter[int] = Counter()

    def slow(keys: list[int]) -> list[int]:
        asked.update(keys)
        assert go.wait(timeout=20)
        return keys

    remote = RemoteModel(slow, lambda: None)
    first, second = remote.begin([1, 2]), remote.begin([2, 3])
    go.set()
    assert [second[key].result()[key] for key in (2, 3)] == [2, 3] and first[1].result()[1] == 1
    assert asked == Counter([1, 2, 3])


def test_a_failure_reaches_the_jobs_that_asked_and_ends_what_is_under_way() -> None:
    behind = Elsewhere()
    remote = RemoteModel(behind, behind.stop)

    def careful(i: int) -> Any:
        def job() -> str:
            try:
                return str(remote([i])[0])
            except ValueError as error:
                return str(error)

        return job

    said = Counter(run_jobs([careful(i) for i in JOBS], 16))
    assert said["thirteen"] >= 1 and said["0"] == 1 and behind.stopped == 0

    go = threading.Event()
    ended: list[int] = []

    def wait(keys: list[int]) -> list[int]:
        if 0 in keys:
            raise ValueError("no")
        assert go.wait(timeout=20)
        return keys

    def stop() -> None:
        ended.append(1)
        go.set()

    other = RemoteModel(wait, stop)
    with pytest.raises(ValueError, match="no"):
        list(run_jobs([lambda i=i: other([i]) for i in range(8)], 8))
    assert ended
