"""Tests processes of this machine that run one command together: which are started again, and how all end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rbench.errors import RbenchError
from rbench.execution.cluster import child
from rbench.execution.cluster.child import ProcessCommand
from tests.execution.cluster.toy import alive, command, wait_for


def run(told: ProcessCommand, count: int, over: Callable[[], bool] = lambda: False, **around: str) -> list[str]:
    """What is said of `count` processes until they have ended."""
    environments = [{name: f"{value}{i}" for name, value in around.items()} for i in range(count)]
    names = [f"process {i + 1}" for i in range(count)]
    return [said for said in child.run_processes(told, environments, names, over) if said is not None]


def test_each_process_has_an_environment_of_its_own(tmp_path: Path) -> None:
    assert run(command(tmp_path, "note=CUDA_VISIBLE_DEVICES"), 2, CUDA_VISIBLE_DEVICES="gpu-") == []
    assert sorted(file.read_text() for file in (tmp_path / "ran").iterdir()) == ["gpu-0", "gpu-1"]


def test_a_process_that_ended_well_is_not_started_again(tmp_path: Path) -> None:
    assert run(command(tmp_path, "note=X exit=0"), 1) == []
    assert len([*(tmp_path / "ran").iterdir()]) == 1


def test_a_process_that_dies_is_started_again(tmp_path: Path) -> None:
    said = run(command(tmp_path, "say=working once=died note=X"), 1)
    assert said == ["process 1 ended with signal SIGKILL: working. It was started again."]
    assert len([*(tmp_path / "ran").iterdir()]) == 1 and int((tmp_path / "died").read_text()) > 0


def test_a_process_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    said = run(command(tmp_path, "note=X exit=1"), 1)
    assert len(said) == 6 and len([*(tmp_path / "ran").iterdir()]) == 6
    assert said[0] == "process 1 ended with exit code 1: it printed nothing. It was started again."
    assert said[-1].endswith("It died 6 times in an hour and is not started again.")


def test_nothing_is_started_again_when_all_is_over(tmp_path: Path) -> None:
    assert run(command(tmp_path, "note=X exit=7"), 1, lambda: True) == []
    assert len([*(tmp_path / "ran").iterdir()]) == 1


def test_where_one_refuses_the_others_go_on(tmp_path: Path) -> None:
    said = run(command(tmp_path, "first=room note=X"), 2)
    assert len(said) == 1 and said[0].endswith("ended with exit code 2: error: no room")
    assert len([*(tmp_path / "ran").iterdir()]) == 1


def test_where_all_refuse_the_reason_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RbenchError) as caught:
        run(command(tmp_path, "refuse=no-data"), 2)
    assert str(caught.value) == "no-data"


def test_whoever_stops_ends_the_processes_in_order(tmp_path: Path) -> None:
    steps = child.run_processes(command(tmp_path, "orderly ready sleep=60"), [{}], ["process 1"], lambda: False)
    assert next(steps) is None
    pid = int(wait_for(tmp_path / "ready"))
    assert alive(pid)
    steps.close()
    assert (tmp_path / "ended").read_text() == str(pid) and not alive(pid)


def test_a_process_that_does_not_end_is_killed_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE", 0.2)
    steps = child.run_processes(command(tmp_path, "deaf ready sleep=60"), [{}], ["process 1"], lambda: False)
    next(steps)
    pid = int(wait_for(tmp_path / "ready"))
    steps.close()
    assert not alive(pid)


def test_one_that_is_killed_from_outside_is_replaced(tmp_path: Path) -> None:
    told = command(tmp_path, "ready sleep=60")
    steps = child.run_processes(told, [{}], ["process 1"], lambda: False)
    next(steps)
    first = int(wait_for(tmp_path / "ready"))
    (tmp_path / "ready").unlink()
    os.kill(first, signal.SIGKILL)
    assert any(said and "SIGKILL" in said for said in (next(steps) for _ in range(500)))
    assert int(wait_for(tmp_path / "ready")) != first
    steps.close()
