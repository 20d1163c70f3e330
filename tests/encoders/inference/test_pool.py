"""Compares many jobs in one thread with the same jobs one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rbench.encoders.inference import (
    BatchedModel,
    BoundedMemo,
    JobTimedOut,
    limit_seconds,
    pool,
    run_jobs,
    used_seconds,
)
from rbench.errors import JobError


class Model:
    """Squares numbers, and notes what it was asked at once."""

    def __init__(self, memo: bool = False) -> None:
        self.calls: list[list[int]] = []
        self.ask: BatchedModel[int, int] = BatchedModel(
            self.compute, BoundedMemo(10**6, lambda key, value: 1) if memo else None
        )

    def compute(self, keys: list[int]) -> list[int]:
        self.calls.append(list(keys))
        return [key * key for key in keys]


PROGRAMS = st.lists(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 9), max_size=4)), max_size=5), max_size=7)


@given(PROGRAMS, st.integers(1, 5), st.booleans())
def test_jobs_get_the_same_answers_at_any_width(
    programs: list[list[tuple[bool, list[int]]]], width: int, memo: bool
) -> None:
    models = Model(memo), Model(memo)

    def job(number: int) -> tuple[int, list[list[int]]]:
        return number, [models[which].ask(keys) for which, keys in programs[number]]

    jobs = [lambda number=number: job(number) for number in range(len(programs))]  # type: ignore[misc]
    expected = {i: [[k * k for k in keys] for _, keys in program] for i, program in enumerate(programs)}
    results = list(run_jobs(jobs, width))
    assert dict(results) == expected and len(results) == len(programs)
    for model in models:
        asked = [key for call in model.calls for key in call]
        assert all(len(call) == len(set(call)) for call in model.calls)
        assert not memo or len(asked) == len(set(asked))


def test_questions_of_jobs_under_way_share_a_batch() -> None:
    model = Model()
    jobs = [lambda i=i: (model.ask([i]), model.ask([10 + i, 3])) for i in range(6)]  # type: ignore[misc]
    assert len(list(run_jobs(jobs, 3))) == 6
    assert model.calls[:2] == [[0, 1, 2], [10, 3, 11, 12]]
    assert len(model.calls) == 4


def test_the_model_that_is_asked_most_goes_first() -> None:
    few, many = Model(), Model()
    order = []
    few.ask._compute = lambda keys: order.append("few") or [0] * len(keys)  # type: ignore[func-returns-value]
    many.ask._compute = lambda keys: order.append("many") or [0] * len(keys)  # type: ignore[func-returns-value]
    list(run_jobs([lambda: few.ask([1]), lambda: many.ask([1, 2, 3])], 2))
    assert order == ["many", "few"]


def test_jobs_are_taken_when_there_is_room() -> None:
    model, taken = Model(), []

    def source() -> object:
        for i in range(6):
            taken.append(i)
            yield lambda i=i: model.ask([i])

    results = run_jobs(source(), 2)  # type: ignore[arg-type]
    assert next(results) == [0]
    assert taken == [0, 1]
    assert len(list(results)) == 5


@pytest.mark.parametrize("width", [2, 5])
def test_random_numbers_do_not_depend_on_who_else_draws(width: int) -> None:
    model = Model()

    def job(seed: int) -> Callable[[], list[float]]:
        def draw() -> list[float]:
            random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
            drawn = []
            for _ in range(1 + seed):
                drawn += [random.random(), float(np.random.random()), float(torch.rand(()))]
                model.ask([seed])
            return drawn

        return draw

    jobs = [job(seed) for seed in range(5)]
    together = sorted(run_jobs(jobs, width), key=len)
    assert together == sorted(run_jobs(jobs, 1), key=len)
    assert len({row[0] for row in together}) == 5


def test_what_a_model_raises_is_raised_where_it_was_asked() -> None:
    def fail(keys: list[int]) -> list[int]:
        raise ZeroDivisionError("no")

    broken: BatchedModel[int, int] = BatchedModel(fail)
    model = Model()

    def job(i: int) -> str:
        try:
            broken([i])
        except ZeroDivisionError:
            return f"caught {model.ask([i])}"
        return "nothing"

    assert sorted(run_jobs([lambda: job(1), lambda: job(2)], 2)) == ["caught [1]", "caught [4]"]


@pytest.mark.parametrize(("error", "spared"), [(ZeroDivisionError, True), (JobError, False)])
def test_a_key_that_nobody_foresaw_fails_the_job_that_asked_for_it(error: type[Exception], spared: bool) -> None:
    calls: list[list[int]] = []

    def odd(keys: list[int]) -> list[int]:
        calls.append(keys)
        if 2 in keys:
            raise error("two")
        return [-key for key in keys]

    ask: BatchedModel[int, int] = BatchedModel(odd)

    def job(i: int) -> int:
        try:
            return ask([i])[0]
        except error:
            return 0

    answers = list(run_jobs([lambda i=i: job(i) for i in (1, 2, 3)], 3))  # type: ignore[misc]
    assert sorted(answers) == ([-3, -1, 0] if spared else [0, 0, 0])
    assert calls == [[1, 2, 3], *([[1], [2], [3]] if spared else [])]


@pytest.mark.parametrize("width", [1, 3])
def test_what_a_job_raises_ends_the_run(width: int) -> None:
    model = Model()

    def bad() -> list[int]:
        model.ask([1])
        raise KeyError("bad")

    with pytest.raises(KeyError):
        list(run_jobs([lambda: model.ask([1]), bad, lambda: model.ask([2])], width))


def test_a_jobs_clock_counts_its_own_steps_and_its_share_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(pool.time, "perf_counter", lambda: now[0])

    def slow(keys: list[int]) -> list[int]:
        now[0] += 12.0  # for the whole batch
        return keys

    ask: BatchedModel[int, int] = BatchedModel(slow)

    def job(own: float, keys: list[int]) -> float:
        start = used_seconds()
        now[0] += own
        ask(keys)
        now[0] += own
        return used_seconds() - start

    jobs = [lambda: job(1.0, [1]), lambda: job(5.0, [2, 3])]
    assert list(run_jobs(jobs, 2)) == [2 * 1.0 + 4.0, 2 * 5.0 + 8.0]  # in all what passed: 12 + 12
    assert list(run_jobs(jobs, 1)) == [2 * 1.0 + 12.0, 2 * 5.0 + 12.0]


def test_without_a_limit_nothing_ends() -> None:
    ask: BatchedModel[int, int] = BatchedModel(lambda keys: keys)
    with limit_seconds(None):
        assert ask([1]) == [1]
    assert ask([2]) == [2]


@pytest.mark.parametrize("width", [1, 2])
def test_a_job_that_is_over_its_limit_ends_at_its_next_question(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(pool.time, "perf_counter", lambda: now[0])
    asked: list[int] = []

    def compute(keys: list[int]) -> list[int]:
        asked.extend(keys)
        now[0] += 0.02
        return keys

    ask: BatchedModel[int, int] = BatchedModel(compute)

    def job(limit: float | None, first: int) -> str:
        try:
            with limit_seconds(limit):
                for key in range(first, first + 4):
                    ask([key])
        except JobTimedOut as error:
            return str(error)
        return "ended"

    ended = list(run_jobs([lambda: job(0.001, 10), lambda: job(None, 20), lambda: job(60.0, 30)], width))
    assert sorted(ended) == ["ended", "ended", "it took longer than 0.001 s (--max-seconds)"]
    assert [key for key in asked if key < 20] == [10], "the first question is answered, and the second not asked"
    assert ask([40]) == [40], "the limit ends with its block"


def test_a_job_is_not_charged_for_the_questions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(pool.time, "perf_counter", lambda: now[0])

    def compute(keys: list[int]) -> list[int]:
        now[0] += 0.004 * len(keys)
        return keys

    ask: BatchedModel[int, int] = BatchedModel(compute)

    def job(keys: int, first: int) -> bool:
        try:
            with limit_seconds(0.1):
                for step in range(8):
                    ask(list(range(first + keys * step, first + keys * (step + 1))))
        except JobTimedOut:
            return False
        return True

    # Of the 0.32 s that both take together the first uses a tenth.
    found = dict(run_jobs([lambda: ("small", job(1, 0)), lambda: ("large", job(9, 1000))], 2))
    assert found == {"small": True, "large": False}
