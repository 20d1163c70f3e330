"""Tests who counts as alive in a shared folder: processes of this machine, and files of other machines that change."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rbench.execution.cluster.membership import Member, Members, ProcessIdentity
from rbench.system.below import SafeFolder
from tests.clock import ManualClock
from tests.execution.cluster.members import write_remote_member


def test_a_member_is_there_while_its_block_lasts(tmp_path: Path) -> None:
    member, members = Member(tmp_path, {"plan": "p"}), Members(tmp_path)
    with member.present():
        (said,) = members.living()
        assert (said["id"], said["plan"], said["pid"]) == (member.id, "p", os.getpid())
        assert members.is_alive(member.id)
    assert members.living() == [] and not members.is_alive(member.id)
    assert [*(tmp_path / "members").iterdir()] == []


def test_heartbeats_come_by_themselves_and_say_what_is_done(tmp_path: Path) -> None:
    member = Member(tmp_path, {}, beat=0.01)
    with member.present():
        member.publish(job="attack/x", done=3)
        deadline = time.monotonic() + 20
        said: dict[str, Any] | None = None
        while time.monotonic() < deadline:
            said = SafeFolder(tmp_path).read_json(member.file)
            if said is not None and said["beat"] >= 4 and said["doing"]:
                break
            time.sleep(0.01)
    assert said is not None and said["beat"] >= 4 and said["doing"] == {"job": "attack/x", "done": 3}


def test_news_are_said_at_once(tmp_path: Path) -> None:
    member = Member(tmp_path, {}, beat=1000)
    with member.present():
        member.publish(now=True, job="attack/x")
        deadline = time.monotonic() + 20
        while not (SafeFolder(tmp_path).read_json(member.file) or {})["doing"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (SafeFolder(tmp_path).read_json(member.file) or {})["doing"] == {"job": "attack/x"}
    assert not member.file.exists()


def test_a_dead_process_of_this_machine_is_dead_at_once(tmp_path: Path, clock: ManualClock) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = dataclasses.replace(ProcessIdentity.own(), pid=child.pid, started="")
    write_remote_member(tmp_path, "child", **dataclasses.asdict(identity))
    members = Members(tmp_path, clock=clock)
    assert members.is_alive("child")
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its parent has not noticed
    assert not members.is_alive("child")
    child.wait()
    assert not members.is_alive("child")


def test_a_process_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    own = ProcessIdentity.own()
    assert own.started and own.is_here and not own.ended
    write_remote_member(tmp_path, "before", **dataclasses.asdict(dataclasses.replace(own, started="1")))
    assert not Members(tmp_path).is_alive("before")


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"boot": "before"}, {"space": "pid:[1]"}])
def test_a_process_that_cannot_be_seen_from_here_is_judged_by_its_heartbeat(
    tmp_path: Path, clock: ManualClock, changes: dict[str, str]
) -> None:
    said = {**dataclasses.asdict(ProcessIdentity.own()), "pid": 2**22 + 1, "started": "1", **changes}
    write_remote_member(tmp_path, "far", **said)
    members = Members(tmp_path, expiry=120, clock=clock)
    assert members.is_alive("far")
    clock.now = 119.0
    assert members.is_alive("far")
    write_remote_member(tmp_path, "far", **said, beat=2)
    clock.now = 200.0
    assert members.is_alive("far"), "the last beat was seen just now, whenever it was written"
    clock.now = 319.0
    assert members.is_alive("far")
    clock.now = 320.0
    assert not members.is_alive("far")


def test_clocks_of_two_machines_are_never_compared(tmp_path: Path) -> None:
    file = write_remote_member(tmp_path, "far", since="1970-01-01T00:00:00+00:00")
    os.utime(file, (0, 0))
    assert Members(tmp_path, clock=ManualClock(1e9)).is_alive("far")
    write_remote_member(tmp_path, "future", since="2999-01-01T00:00:00+00:00")
    clock = ManualClock(5.0)
    members = Members(tmp_path, clock=clock)
    assert members.is_alive("future")
    clock.now += 120
    assert not members.is_alive("future")


def test_a_torn_file_of_a_member_is_given_time(tmp_path: Path, clock: ManualClock) -> None:
    write_remote_member(tmp_path, "torn").write_text('{"id": "to')
    members = Members(tmp_path, clock=clock)
    assert members.living() == [{"id": "torn", "doing": {}}]
    clock.now = 120.0
    assert members.living() == []
    members.sweep()
    assert [*members.folder.iterdir()] == []


def test_a_sweep_leaves_the_living(tmp_path: Path, clock: ManualClock) -> None:
    write_remote_member(tmp_path, "far")
    write_remote_member(tmp_path, "dead", **dataclasses.asdict(dataclasses.replace(ProcessIdentity.own(), started="1")))
    members = Members(tmp_path, clock=clock)
    members.sweep()
    assert [file.stem for file in members.folder.iterdir()] == ["far"]


def test_silence_is_remembered(tmp_path: Path, clock: ManualClock) -> None:
    member = Member(tmp_path, {}, clock=clock)
    clock.now = 7.0
    assert member.longest_silence == 7.0
    member.write_heartbeat()
    clock.now = 8.0
    assert member.longest_silence == 7.0, "a process that was stopped beats first when it goes on"


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "members").write_text("")
    with pytest.raises(OSError), Member(tmp_path, {}).present():
        pass


def test_a_sign_of_life_is_a_process_that_runs_here_or_a_file_that_heartbeats_change(tmp_path: Path) -> None:
    members, member = Members(tmp_path), Member(tmp_path, {})
    with member.present():
        assert members.sign(member.id) is None
    assert members.sign(member.id) == b"", "it is gone"
    write_remote_member(tmp_path, "far")
    first = members.sign("far")
    assert first and members.sign("far") == first
    write_remote_member(tmp_path, "far", beat=2)
    assert members.sign("far") not in (None, first)
    write_remote_member(tmp_path, "dead", host=ProcessIdentity.own().host, pid=2**22 + 1)
    assert members.sign("dead") is not None


def test_who_shows_no_sign_of_life_elsewhere_is_dead_and_who_beats_is_not(tmp_path: Path, clock: ManualClock) -> None:
    write_remote_member(tmp_path, "far")
    write_remote_member(tmp_path, "dead")
    members, told, slept = Members(tmp_path, clock=clock), [], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds
        if clock.now % 10 == 0:
            write_remote_member(tmp_path, "far", beat=int(clock.now))

    found = members.surely_living(lambda silent: told.append({one["id"] for one in silent}), sleep=sleep)
    assert [one["id"] for one in found] == ["far"] and told == [{"far", "dead"}] and sum(slept) == 120
    slept.clear()
    assert [one["id"] for one in members.surely_living(lambda silent: None, sleep=sleep)] == ["far"]
    assert sum(slept) <= 10, "until the next beat"


def test_a_process_of_this_machine_needs_no_sign_of_life(tmp_path: Path) -> None:
    with Member(tmp_path, {}).present():
        (found,) = Members(tmp_path).surely_living(lambda silent: pytest.fail(), sleep=lambda seconds: pytest.fail())
        assert found["pid"] == os.getpid()
