"""Tests the order in which a process takes jobs beside others, when it waits, and when it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest

from rbench.execution.cluster.scheduler import schedule_jobs
from rbench.plan.planner import make_plan
from rbench.schema import Job, Provenance, Record
from tests.plan.builders import make_inputs, make_suite

PLAN = make_plan(make_suite(encoders=["lm"]), make_inputs())


def recorded(job: Job, status: str = "complete") -> Record:
    return Record(job=job, status=status, provenance=Provenance(rbench="0"))


class Board:
    """What others do: `held` by them, `ended` by them, and what happens when this process pauses."""

    def __init__(self, pause: Callable[[Board], None] = lambda board: None) -> None:
        self.held_leases: set[str] = set()
        self.shared: set[str] = set()
        self.done: dict[str, Record] = {}
        self.taken: list[str] = []
        self.pauses = self.sure = 0
        self._pause = pause

    def ended(self, job: Job, needed: bool) -> Record | None:
        return self.done.get(job.key)

    def take(self, job: Job, *, shared: bool) -> AbstractContextManager[None] | None:
        return self._held(job) if job.key not in self.held_leases and (job.key in self.shared) == shared else None

    def busy(self, job: Job) -> bool:
        return job.key in self.held_leases | self.shared

    @contextmanager
    def _held(self, job: Job) -> Iterator[None]:
        self.held_leases.add(job.key)
        self.taken.append(job.key)
        yield
        self.held_leases.remove(job.key)

    def may_leave(self, jobs: Sequence[Job]) -> bool:
        return self.sure <= self.pauses

    def pause(self) -> None:
        self.pauses += 1
        assert self.pauses < 100
        self._pause(self)


def names(jobs: list[Job]) -> set[str]:
    return {job.name for job in jobs}


def test_alone_every_job_runs_once_in_its_order() -> None:
    board = Board()
    results = list(schedule_jobs(PLAN.jobs, board, recorded))
    assert [job.key for job, _ in results] == [job.key for job in PLAN.jobs] == board.taken
    assert board.pauses == 0 and not board.held_leases


def test_jobs_behind_a_failure_are_not_run_and_the_others_are() -> None:
    broken = next(job for job in PLAN.jobs if job.name == "finetune/lm/a/clean/seed0")
    board = Board()
    results = list(
        schedule_jobs(PLAN.jobs, board, lambda job: recorded(job, "failed" if job == broken else "complete"))
    )
    missing = {job.key for job, record in results if record is None}
    assert {job.key for job, _ in results} == {job.key for job in PLAN.jobs}
    assert missing == {job.key for job in PLAN.jobs if broken.key in job.needs.values()}
    assert {*board.taken} == {job.key for job in PLAN.jobs} - missing


def test_a_failure_elsewhere_counts_as_one_here() -> None:
    first = PLAN.jobs[0]
    board = Board()
    board.done[first.key] = recorded(first, "failed")
    results = {job.key: record for job, record in schedule_jobs(PLAN.jobs, board, recorded)}
    assert first.key not in board.taken and results[first.key] == board.done[first.key]
    behind = [job for job in PLAN.jobs if first.key in job.needs.values()]
    assert behind and all(results[job.key] is None for job in behind)


def test_what_others_have_is_left_to_them() -> None:
    finetune = [job for job in PLAN.jobs if job.stage == "finetune"]
    behind = {job.key for job in PLAN.jobs if finetune[0].key in job.needs.values()}

    def ends(board: Board) -> None:
        board.done[finetune[0].key] = recorded(finetune[0])

    board = Board(ends)
    board.held_leases = {finetune[0].key}
    results = list(schedule_jobs(PLAN.jobs, board, recorded))
    assert board.pauses == 1, "it waits for what it needs, once nothing else is left"
    assert {job.key for job, _ in results} == {job.key for job in PLAN.jobs}
    assert {*board.taken[-len(behind) :]} == behind and finetune[0].key not in board.taken


def test_it_leaves_when_only_others_have_something_to_do() -> None:
    last = PLAN.jobs[-1]
    board = Board()
    board.held_leases = {last.key}
    results = list(schedule_jobs(PLAN.jobs, board, recorded))
    assert board.pauses == 0 and {job.key for job, _ in results} == {job.key for job in PLAN.jobs} - {last.key}


def test_it_leaves_only_once_others_are_known_to_live() -> None:
    board = Board()
    board.held_leases, board.sure = {PLAN.jobs[-1].key}, 3
    assert len(list(schedule_jobs(PLAN.jobs, board, recorded))) == len(PLAN.jobs) - 1 and board.pauses == 3


def test_while_it_waits_to_leave_it_takes_over_what_a_dead_one_did() -> None:
    board = Board(lambda board: board.held_leases.clear())
    board.held_leases, board.sure = {PLAN.jobs[-1].key}, 9
    results = list(schedule_jobs(PLAN.jobs, board, recorded))
    assert len(results) == len(PLAN.jobs) and board.taken[-1] == PLAN.jobs[-1].key


def test_the_lease_of_one_who_died_is_taken_in_the_end() -> None:
    first = PLAN.jobs[0]
    board = Board(lambda board: board.held_leases.clear())
    board.held_leases = {first.key}
    results = list(schedule_jobs(PLAN.jobs, board, recorded))
    assert first.key in board.taken and len(results) == len(PLAN.jobs)


def test_a_job_that_others_work_on_comes_after_those_that_nobody_has() -> None:
    attacks = [job for job in PLAN.jobs if job.stage == "attack"]
    board = Board()
    board.shared = {attacks[0].key}
    list(schedule_jobs(PLAN.jobs, board, recorded))
    assert board.taken[-1] == attacks[0].key and len(board.taken) == len(PLAN.jobs)


def test_attacks_on_a_victim_that_others_attack_come_after_those_on_other_victims() -> None:
    """A process keeps what a victim answered for its other attacks."""
    attacks = [job for job in PLAN.jobs if job.stage == "attack"]
    victim = attacks[0].needs["victim"]
    theirs = [job for job in attacks if job.needs["victim"] == victim]
    assert 1 < len(theirs) < len(attacks)
    board = Board()
    board.held_leases = {theirs[0].key}
    list(schedule_jobs(PLAN.jobs, board, recorded))
    others = [job.key for job in PLAN.jobs if job not in theirs]
    assert board.taken == [*others, *(job.key for job in theirs[1:])]


def test_a_job_of_which_only_a_part_was_done_is_tried_again() -> None:
    job = PLAN.jobs[-1]
    parts = iter([None, None])
    board = Board()

    def call(one: Job) -> Record | None:
        return next(parts, recorded(one)) if one == job else recorded(one)

    results = list(schedule_jobs(PLAN.jobs, board, call))
    assert [key for key in board.taken if key == job.key] == [job.key] * 3
    assert [key.key for key, _ in results].count(job.key) == 1


def test_what_the_callable_raises_ends_the_run() -> None:
    def call(job: Job) -> Record:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(schedule_jobs(PLAN.jobs, Board(), call))
