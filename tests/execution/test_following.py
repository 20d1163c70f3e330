"""Tests the one progress of all processes of a run: what ended, what failed, what cannot run, and who does what."""

from __future__ import annotations

from typing import Any

from rbench.execution.spread import JobFollower
from rbench.plan.planner import make_plan
from rbench.schema import Job, Provenance, Record
from tests.plan.builders import make_inputs, make_suite
from tests.store.conftest import Told

PLAN = make_plan(make_suite(encoders=["lm"]), make_inputs())


class Board:
    """What the other processes wrote."""

    def __init__(self) -> None:
        self.done: dict[str, Record] = {}

    def end(self, job: Job, status: str = "complete") -> None:
        self.done[job.key] = Record(job=job, status=status, provenance=Provenance(rbench="0"))

    def ended(self, job: Job, needed: bool) -> Record | None:
        return self.done.get(job.key)


class Team:
    """The other processes."""

    def __init__(self, *doing: dict[str, Any]) -> None:
        self.members = self
        self.doing = doing

    def living(self) -> list[dict[str, Any]]:
        return [{"id": str(i), "doing": one} for i, one in enumerate(self.doing)]


class Shown(Told):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.steps: list[tuple[int, int, str]] = []

    def update(self, done: int, total: int, text: str = "") -> None:
        self.steps.append((done, total, text))


def following(board: Board, team: Team, now: list[float]) -> tuple[JobFollower, Shown]:
    shown = Shown()
    return JobFollower([*PLAN.jobs], team, board, shown, lambda: now[0]), shown  # type: ignore[arg-type]


def test_what_ends_is_told_once_and_counted() -> None:
    board, now = Board(), [0.0]
    found, shown = following(board, Team({"job": "attack/x", "done": 3, "total": 8}, {"job": "y", "total": 0}, {}), now)
    found.look()
    board.end(PLAN.jobs[0])
    found.look()
    assert shown.steps == [(0, len(PLAN.jobs), "attack/x 3/8; y")], "the next look is a second later"
    now[0] = 1.0
    found.look()
    now[0] = 2.0
    found.look()
    assert [step[0] for step in shown.steps] == [0, 1, 1]
    assert shown.notes == [f"{PLAN.jobs[0].name}: complete"] and not found.over
    assert PLAN.jobs[0] not in found.left and len(found.left) == len(PLAN.jobs) - 1


def test_all_is_over_when_each_job_ended_or_cannot_run() -> None:
    board = Board()
    found, _ = following(board, Team(), [0.0])
    broken = next(job for job in PLAN.jobs if job.name == "finetune/lm/a/clean/seed0")
    behind = {job.key for job in PLAN.jobs if broken.key in job.needs.values()}
    for job in PLAN.jobs:
        assert not found.over
        if job.key not in behind:
            board.end(job, "failed" if job == broken else "complete")
    assert found.over and [record.job for record in found.failed] == [broken]
    assert {job.key for job in found.skipped} == behind and behind


def test_what_failed_is_told_with_its_reason_and_seen_at_each_look() -> None:
    board, now = Board(), [0.0]
    found, shown = following(board, Team({"job": "attack/x", "total": 0}), now)
    broken = next(job for job in PLAN.jobs if job.name == "finetune/lm/a/clean/seed0")
    behind = [job for job in PLAN.jobs if broken.key in job.needs.values()]
    board.end(broken, "failed")
    for second in (0.0, 5.0):
        now[0] = second
        found.look()
        assert shown.steps[-1][0] == 1 + len(behind)
        assert shown.steps[-1][2] == f"1 failed; {len(behind)} not run; attack/x"
    (note,) = shown.notes
    assert note.startswith(f"{broken.name}: failed: ")


def test_of_many_processes_two_are_named() -> None:
    found, shown = following(Board(), Team(*({"job": f"j{i}"} for i in range(5))), [0.0])
    found.look()
    assert shown.steps[0][2] == "j0; j1; 3 more"
