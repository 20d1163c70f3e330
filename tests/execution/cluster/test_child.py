"""Tests processes that others start: what they are told, how they end, and machines that do not see the RUN."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rbench.errors import RbenchError
from rbench.execution.cluster import child
from rbench.execution.cluster.child import ChildProcess, RestartLimit, describe_exit
from tests.execution.cluster.toy import alive, command, wait_for
from tests.refusals import refusal


def test_a_process_gets_its_line_its_folder_and_its_environment(tmp_path: Path) -> None:
    told = command(tmp_path, "say=hello note=TOY exit=1")
    process = ChildProcess(told, "one", {"TOY": "mine"})
    assert process.wait() == 1 and process.last_line() == "hello"
    assert (tmp_path / "ran" / str(process.pid)).read_text() == "mine"
    assert (tmp_path / "logs" / "one.log").read_text() == "hello\n"


def test_the_log_of_a_process_that_ended_well_is_removed(tmp_path: Path) -> None:
    process = ChildProcess(command(tmp_path, "say=hello"), "one")
    assert process.wait() == 0
    assert [*(tmp_path / "logs").iterdir()] == [] and process.last_line() == ""


def test_a_process_ends_in_order_when_it_is_asked_to(tmp_path: Path) -> None:
    process = ChildProcess(command(tmp_path, "orderly ready sleep=60"), "one")
    wait_for(tmp_path / "ready")
    assert process.poll() is None
    process.ask_to_end()
    process.end()
    assert process.poll() == 143 and (tmp_path / "ended").exists()


def test_a_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    process = ChildProcess(command(tmp_path, "deaf ready sleep=60"), "one")
    pid = int(wait_for(tmp_path / "ready"))
    process.ask_to_end()
    assert process.wait(0.3) is None and alive(pid)
    process.end(within=0.1)
    assert process.poll() == -9 and not alive(pid)


def test_a_machine_that_does_not_see_the_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "SEEN_WITHIN", 0.0)
    unseen = command(tmp_path, "say=x", seen=str(tmp_path / "seen"))
    with refusal(RbenchError, str(tmp_path / "seen"), "docs/scaling.md"):
        ChildProcess(unseen, "one")
    (tmp_path / "seen").touch()
    assert ChildProcess(unseen, "one").wait() == 0


def test_what_a_network_file_system_shows_late_is_waited_for(tmp_path: Path) -> None:
    times = iter([0.0, 1.0, 2.0])

    def clock() -> float:
        if (now := next(times)) == 2.0:
            (tmp_path / "seen").touch()
        return now

    child.check_folders(command(tmp_path, "", seen=str(tmp_path / "seen")), clock)


def test_deaths_are_forgotten_after_an_hour() -> None:
    now = [0.0]
    deaths = RestartLimit(most=2, clock=lambda: now[0])
    assert [deaths.allows_restart() for _ in range(3)] == [True, True, False]
    now[0] = 3599.0
    assert not deaths.allows_restart()
    now[0] = 3601.0 + 3600.0
    assert deaths.allows_restart()


def test_how_a_process_ended_is_said_in_words() -> None:
    assert [describe_exit(3), describe_exit(-9), describe_exit(-15), describe_exit(-99)] == [
        "exit code 3",
        "signal SIGKILL",
        "signal SIGTERM",
        "signal 99",
    ]


def test_waiting_has_a_limit(tmp_path: Path) -> None:
    process = ChildProcess(command(tmp_path, "sleep=60"), "one")
    began = time.monotonic()
    assert process.wait(0.2) is None and time.monotonic() - began < 10
    process.kill()
    assert process.poll() == -9
