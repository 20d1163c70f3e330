"""Tests that no two living processes hold one part, whatever dies, stalls or is torn."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbench.errors import LeaseLost
from rbench.execution.cluster.membership import Leases, Member, Members
from rbench.system.below import SafeFolder
from tests.clock import ManualClock
from tests.execution.cluster.members import write_remote_member


class Process:
    """A process of this machine that takes leases, with a clock of its own."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.member = Member(root, {}, clock=clock)
        self.member.write_heartbeat()
        self.members = Members(root, clock=clock)
        self.leases = Leases(root, self.member, self.members)

    def dies(self) -> None:
        self.member.file.unlink()


@pytest.fixture
def two(tmp_path: Path, clock: ManualClock) -> tuple[Process, Process]:
    return Process(tmp_path, clock), Process(tmp_path, clock)


def test_one_of_two_holds_a_part(two: tuple[Process, Process]) -> None:
    one, other = two
    lease = one.leases.take("job", "0001")
    assert lease is not None and other.leases.take("job", "0001") is None
    assert one.leases.take("job", "0001") is None, "not twice by one process, either"
    assert other.leases.holder("job", "0001") == one.member.id
    assert other.leases.take("job", "0002") is not None, "another part is free"
    lease.give_back()
    assert other.leases.holder("job", "0001") is None and one.leases.held_leases("job") == []
    assert other.leases.take("job", "0001") is not None
    assert other.leases.parts("job") == {"0001": 2, "0002": 1}
    one.leases.take("other", "job")
    one.leases.clear(but="other")
    assert [path.name for path in one.leases.folder.iterdir()] == ["other"]


def test_the_lease_of_a_dead_process_is_taken_over_by_one_of_many(tmp_path: Path, clock: ManualClock) -> None:
    dead, *others = (Process(tmp_path, clock) for _ in range(5))
    assert dead.leases.take("job", "job") is not None
    dead.dies()
    assert [one.leases.take("job", "job") is not None for one in others].count(True) == 1


def test_who_sees_an_old_list_takes_nothing(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    for process in (one, other, one):
        lease = process.leases.take("job", "job")
        assert lease is not None
        lease.give_back()
    assert other.leases.take("job", "job") is not None  # the fourth; the earlier files are gone
    listed = iter([{"job": 1}])
    really = one.leases.parts
    monkeypatch.setattr(one.leases, "parts", lambda name: next(listed, None) or really(name))
    monkeypatch.setattr(one.leases, "holder", lambda name, part: None)
    assert one.leases.take("job", "job") is None
    assert one.leases.parts("job") == {"job": 4} and other.leases.held_leases("job")[0].number == 4
    assert [file.name for file in (other.leases.folder / "job").iterdir()] == ["job.4"]


def test_who_was_stopped_for_long_notices_before_it_writes(tmp_path: Path) -> None:
    stopped, other = Process(tmp_path, ManualClock()), Process(tmp_path, ManualClock())
    lease = stopped.leases.take("job", "job")
    assert lease is not None
    write_remote_member(tmp_path, stopped.member.id)  # seen from another machine
    assert other.leases.take("job", "job") is None
    stopped.clock.now = other.clock.now = 120.0
    lease.check()  # nobody has taken over yet: it may go on
    assert other.leases.take("job", "job") is not None
    stopped.member.write_heartbeat()  # its heartbeat is the first to go on
    with pytest.raises(LeaseLost):
        lease.check()
    lease.give_back()
    assert stopped.leases.take("job", "job") is None and other.leases.held_leases("job")


def test_a_check_costs_nothing_while_heartbeats_are_written(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = two[0].leases.take("job", "job")
    assert lease is not None
    two[0].clock.now = 59.0
    monkeypatch.setattr(two[0].leases, "parts", None)
    lease.check()


@pytest.mark.parametrize("content", [b"", b'{"holder": "a', b"[]", b'{"holder": 3}', b"\xff\x00"])
def test_a_torn_lease_is_given_time(two: tuple[Process, Process], content: bytes) -> None:
    one, other = two
    lease = one.leases.take("job", "job")
    assert lease is not None
    lease.file.write_bytes(content)
    assert other.leases.take("job", "job") is None and other.leases.holder("job", "job") == "unknown"
    other.clock.now = 120.0
    assert other.leases.take("job", "job") is not None


def no_links(number: int) -> Callable[..., Any]:
    def link(*args: Any, **kwargs: Any) -> None:
        raise OSError(number, os.strerror(number))

    return link


def test_without_hard_links_it_is_the_same(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links(errno.EPERM))
    one, other = two
    lease = one.leases.take("job", "job")
    assert lease is not None and other.leases.take("job", "job") is None
    lease.give_back()
    assert other.leases.take("job", "job") is not None
    assert not SafeFolder(other.leases.folder).make(other.leases.folder / "job" / "job.2", b"")


def test_a_link_whose_answer_was_lost_counts(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.link

    def link(*args: Any, **kwargs: Any) -> None:
        really(*args, **kwargs)
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    assert two[0].leases.take("job", "job") is not None and two[1].leases.take("job", "job") is None


def test_a_full_disk_is_an_error_and_leaves_nothing(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_links(errno.ENOSPC))
    with pytest.raises(OSError) as caught:
        two[0].leases.take("job", "job")
    assert caught.value.errno == errno.ENOSPC
    assert [*(two[0].leases.folder / "job").iterdir()] == []


# ------------------------------------------------------------------------------------------ who dies with what it holds


def deaths_of(root: Path, clock: ManualClock, done: list[str]) -> list[int]:
    """Let one process after the other take a part, of which so much is done, and die. Return what each was told."""
    told = []
    for so_far in done:
        process = Process(root, clock)
        lease = process.leases.take("job", "0001", so_far)
        assert lease is not None
        told.append(lease.deaths)
        process.dies()
    return told


def test_those_who_die_with_a_part_one_after_the_other_are_counted(tmp_path: Path, clock: ManualClock) -> None:
    assert deaths_of(tmp_path, clock, ["", "", "", ""]) == [0, 1, 2, 3]
    observer = Process(tmp_path, clock)
    assert observer.leases.died("job", "0001", 4) == 4, "the last one, whose lease is there, counts too"
    assert observer.leases.died("job", "0002", 0) == 0
    other = observer.leases.take("job", "0002")
    assert other is not None and other.deaths == 0, "another part of the same job"


def test_a_living_holder_is_no_death(tmp_path: Path, clock: ManualClock) -> None:
    assert deaths_of(tmp_path, clock, [""]) == [0]
    one, other = Process(tmp_path, clock), Process(tmp_path, clock)
    assert one.leases.take("job", "0001") is not None
    assert other.leases.died("job", "0001", 2) == 1


def test_who_died_and_had_got_further_is_not_counted(tmp_path: Path, clock: ManualClock) -> None:
    assert deaths_of(tmp_path, clock, ["", "", "10", "10", "10", "11"]) == [0, 1, 0, 1, 2, 0]
    assert Process(tmp_path, clock).leases.died("job", "0001", 6) == 6


def test_who_gives_back_has_not_died(tmp_path: Path, clock: ManualClock) -> None:
    assert deaths_of(tmp_path, clock, ["", ""]) == [0, 1]
    for done, told in (("", 2), ("", 2), ("10", 0), ("10", 0)):  # such as by SIGTERM, at the end of a job's time
        process = Process(tmp_path, clock)
        lease = process.leases.take("job", "0001", done)
        assert lease is not None and lease.deaths == told
        lease.give_back()
        process.dies()


@pytest.mark.parametrize("torn", [b"", b'{"hol', b"[]", b"3"])
def test_of_a_torn_lease_no_deaths_are_known(torn: bytes, tmp_path: Path, clock: ManualClock) -> None:
    deaths_of(tmp_path, clock, ["", "", ""])
    (tmp_path / "leases" / "job" / "0001.3").write_bytes(torn)
    process = Process(tmp_path, clock)
    assert process.leases.take("job", "0001") is None and process.leases.died("job", "0001", 3) == 0
    clock.now += 1000.0
    lease = process.leases.take("job", "0001")
    assert lease is not None and lease.deaths == 0


@pytest.mark.parametrize("said", ['{"holder": "gone"}', '{"holder": "gone", "deaths": "x"}'])
def test_a_lease_of_another_version_may_say_nothing_of_deaths(said: str, tmp_path: Path, clock: ManualClock) -> None:
    process = Process(tmp_path, clock)
    file = tmp_path / "leases" / "job" / "0001.1"
    file.parent.mkdir(parents=True)
    file.write_text(said)
    lease = process.leases.take("job", "0001")
    assert lease is not None and lease.deaths == 1


def test_of_two_that_make_one_file_at_the_same_time_one_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "leases" / "0001.1"
    assert SafeFolder(tmp_path).make(file, b"mine") and not SafeFolder(tmp_path).make(file, b"theirs")
    assert file.read_bytes() == b"mine" and [*file.parent.iterdir()] == [file]
