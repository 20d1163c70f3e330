"""Tests what `rbench status` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbench import api
from rbench.api.watching import FailedJob, WorkingProcess
from rbench.cli import showing_verbs
from tests.cli.conftest import Shell

JOB = "attack/a/mr/clean/pwws/seed0"
ONE = WorkingProcess("node-1", 17, "2026-11-23T07:00:12+00:00", 2, JOB, "2026-11-23T08:01:00", 3, 64)
IDLE = WorkingProcess("node-2", 18, "2026-11-23T07:00:12+00:00", 1, None, None, 0, 0)


def status(done: int, *processes: WorkingProcess, hours: float = 2.25, unmeasured: int = 0) -> api.Status:
    counts = {"done": done, "failed": 0, "under way": len(processes), "to do": 5 - done - len(processes)}
    return api.Status(Path("r"), processes, {"attack": counts}, hours, unmeasured)  # type: ignore[dict-item]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[api.Status]:
    """What the next looks find; `--watch` does not sleep."""
    found: list[api.Status] = []
    coming: Iterator[api.Status] = iter(found)

    class Watcher:
        def __init__(self, run: Path) -> None:
            assert run == Path()

        def look(self) -> api.Status:
            return next(coming)

    monkeypatch.setattr(api, "Watcher", Watcher)
    monkeypatch.setattr(showing_verbs.time, "sleep", lambda seconds: None)
    return found


def test_who_does_what_and_what_is_left(shell: Shell, looks: list[api.Status]) -> None:
    looks.append(status(1, ONE, IDLE, unmeasured=1))
    result = shell("status", ".")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "process       since             job                           steps  job since",
        "17 on node-1  2026-11-23 07:00  attack/a/mr/clean/pwws/seed0  3/64   2026-11-23 08:01",
        "18 on node-2  2026-11-23 07:00  -",
        "",
        "stage   done  failed  under way  to do",
        "attack  1     0       2          2",
        "",
        "about 2.2 h left for 2 processes, without 1 job of a kind that has not ended yet",
    ]


def test_nobody_is_there(shell: Shell, looks: list[api.Status]) -> None:
    looks.append(status(1, hours=0.5))
    said = shell("status", ".").stdout.splitlines()
    assert said[0] == "no process works on this run" and said[-1] == "about 30 min left for 1 process"


def test_time_that_nobody_can_know_is_not_nought(shell: Shell, looks: list[api.Status]) -> None:
    looks.append(status(1, hours=0.0, unmeasured=73))
    *_, left = shell("status", ".").stdout.splitlines()
    assert left == "73 jobs left; how long they take is not known before one of their kind has ended"


def test_folders_of_an_earlier_suite_are_counted(shell: Shell, looks: list[api.Status]) -> None:
    looks.append(dataclasses.replace(status(1), strangers=2))
    *_, strangers, _ = shell("status", ".").stdout.splitlines()
    assert strangers.startswith("2 folders are of jobs") and " rbench verify r " in strangers


def test_watching_ends_when_all_is_done(shell: Shell, looks: list[api.Status]) -> None:
    looks += [status(1, ONE), status(3, ONE), status(5), status(5)]
    result = shell("status", ".", "--watch")
    assert result.exit_code == 0 and result.stdout.count("stage ") == 3
    assert result.stdout.splitlines()[-1] == "all jobs are done"


def test_failed_jobs_are_named_with_what_waits_for_them(shell: Shell, looks: list[api.Status]) -> None:
    several = [FailedJob(f"finetune/{i}", "ValueError: x", ("attack/a", "attack/b")[:i]) for i in range(7)]
    looks.append(dataclasses.replace(status(1), failures=tuple(several)))
    said = shell("status", ".").stdout.splitlines()
    assert "failed: finetune/0: ValueError: x" in said
    assert "failed: finetune/1: ValueError: x (not run because of it: attack/a)" in said
    assert "failed: finetune/2: ValueError: x (not run because of it: attack/a and 1 more)" in said
    assert "failed: 2 more jobs" in said and not any("finetune/5" in line for line in said)
    assert "The same rbench run tries failed jobs again, once each." in said
