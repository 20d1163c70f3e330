"""Tests how processes join a RUN, and which jobs they may take there."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import JobError, LeaseLost, StoreError
from rbench.execution.cluster.scheduler import (
    WHOLE_JOB,
    JobBoard,
    WorkerGroup,
    check_unused,
    count_chunks,
    name_processes,
    plan_digest,
)
from rbench.execution.run import crowding_warning
from rbench.schema import Plan
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, cache
from tests.cli.conftest import attack_job, finetune_job
from tests.store.builders import SUITE, make_record

TUNE, ATTACK = finetune_job(0), attack_job(0)
PLAN = Plan(suite=SUITE, jobs=(TUNE, ATTACK))


def test_those_who_join_are_told_who_is_there(tmp_path: Path) -> None:
    told: list[list[dict[str, Any]]] = []

    def prepare(others: list[dict[str, Any]]) -> Plan:
        told.append(others)
        return PLAN

    one, other = WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    with one.joined(prepare), other.joined(prepare):
        assert [len(others) for others in told] == [0, 1]
        assert (told[1][0]["id"], told[1][0]["plan"]) == (one.member.id, plan_digest(PLAN))
        assert len(one.members.living()) == 2
    assert one.members.living() == []


def test_one_joins_after_the_other(tmp_path: Path) -> None:
    inside, most = 0, 0
    lock = threading.Lock()

    def prepare(others: list[dict[str, Any]]) -> Plan:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.01)
        with lock:
            inside -= 1
        return PLAN

    def join() -> None:
        with WorkerGroup(tmp_path).joined(prepare):
            pass

    threads = [threading.Thread(target=join) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_who_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    def refuse(others: list[dict[str, Any]]) -> Plan:
        raise StoreError("no")

    team = WorkerGroup(tmp_path)
    with pytest.raises(StoreError), team.joined(refuse):
        pass
    assert team.members.living() == []
    with WorkerGroup(tmp_path).joined(lambda others: PLAN):
        pass


def test_the_first_to_come_sweeps(tmp_path: Path) -> None:
    left = tmp_path / "attack" / "a" / "record.json.12345678.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    (tmp_path / "plan.json.12345678.tmp").write_text("half")
    others = [tmp_path / name for name in ("notes.tmp", "thesis/x.12345678.tmp", "attack/a/record.json.1234.tmp")]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "build.12345678.tmp").mkdir()
    for other in others:
        other.write_text("years of work")
    with WorkerGroup(tmp_path).joined(lambda others: PLAN):
        assert not left.exists() and not (tmp_path / "plan.json.12345678.tmp").exists()
        assert all(other.exists() for other in others), "a RUN may lie in a folder with other things"
        left.write_text("half")
        with WorkerGroup(tmp_path).joined(lambda others: PLAN):
            assert left.exists(), "a process that is there may be writing it"


def test_a_process_that_writes_its_first_heartbeat_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    rename, swept = os.rename, []

    def late(source: str, target: str, **folders: int) -> None:
        if target == second.member.file.name and not swept:
            with first.joined(lambda others: PLAN):
                swept.append(source)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", late)
    with second.joined(lambda others: PLAN):
        assert swept, "the first has joined, and left, while the second wrote"
        assert len(second.members.living()) == 1


def test_the_end_gives_back_what_is_held(tmp_path: Path) -> None:
    one, other = WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    with other.joined(lambda others: PLAN):
        with pytest.raises(ZeroDivisionError), one.joined(lambda others: PLAN):
            assert one.take(ATTACK) is not None and other.take(ATTACK) is None
            raise ZeroDivisionError
        assert other.take(ATTACK) is not None


def test_the_last_to_leave_removes_the_leases(tmp_path: Path) -> None:
    one, other = WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    with one.joined(lambda others: PLAN):
        with other.joined(lambda others: PLAN):
            lease = other.take(ATTACK)
        assert one.holders(ATTACK) == {} and len(one.state(ATTACK)) == 1
        assert lease is not None
        other.member._longest = 1000.0
    assert [path.name for path in (one.folder / "leases").iterdir()] == ["joining"]
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_run_in_use_is_named(tmp_path: Path) -> None:
    check_unused(tmp_path)
    team = WorkerGroup(tmp_path)
    with team.joined(lambda others: PLAN), pytest.raises(StoreError) as caught:
        check_unused(tmp_path)
    assert str(tmp_path) in str(caught.value) and f"process {os.getpid()}" in str(caught.value)
    assert name_processes([{"id": "a"}, {"id": "b"}]) == "another process and 1 more"


def test_who_died_elsewhere_is_swept_after_a_time_without_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    team, dead = WorkerGroup(tmp_path), tmp_path / ".processes/members/dead.json"
    dead.parent.mkdir(parents=True)
    dead.write_text(json.dumps({"id": "dead", "plan": "x", "pid": 7, "host": "node", "since": "2020"}))
    monkeypatch.setattr(team.members, "expiry", 0.5)
    with caplog.at_level("WARNING", logger="rbench"):
        assert team.others() == [] and not dead.exists()
    assert "waiting for a sign of life of process 7 on node since 2020" in caplog.text


def test_a_folder_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError),
        WorkerGroup(tmp_path / "file").joined(lambda others: PLAN),
    ):
        pass


# ---------------------------------------------------------------------------------------------------------- the board


class Process:
    def __init__(self, root: Path) -> None:
        self.team, self.store = WorkerGroup(root), RunStore(root)
        self.cache = WeightCache(root / "cache")
        self.board = JobBoard(self.team, self.store, self.cache, PLAN.jobs)
        self.team.member.write_heartbeat()


@pytest.fixture
def two(tmp_path: Path) -> tuple[Process, Process]:
    return Process(tmp_path), Process(tmp_path)


def test_a_training_is_for_one_and_an_attack_for_all(two: tuple[Process, Process]) -> None:
    one, other = two
    with one.board.take(TUNE, shared=False) or pytest.fail():
        assert other.board.take(TUNE, shared=False) is None and other.board.take(TUNE, shared=True) is None
    assert other.board.take(TUNE, shared=False) is not None
    assert one.board.take(ATTACK, shared=True) is None, "nobody works on it yet"
    with one.board.take(ATTACK, shared=False) or pytest.fail():
        assert one.team.take(ATTACK, "0000") is not None
        assert other.board.take(ATTACK, shared=False) is None
        with other.board.take(ATTACK, shared=True) or pytest.fail():
            assert other.team.take(ATTACK, "0001") is not None
            assert count_chunks(100) == 2 and Process(one.store.root).board.take(ATTACK, shared=True) is None


def test_an_attack_that_is_merged_is_left_to_who_does_it(two: tuple[Process, Process]) -> None:
    one, other = two
    assert one.team.take(ATTACK) is not None
    assert other.board.take(ATTACK, shared=True) is None and other.board.take(ATTACK, shared=False) is None


def test_what_had_nothing_left_is_tried_again_when_it_changes(two: tuple[Process, Process]) -> None:
    one, other = two
    lease = one.team.take(ATTACK, "0000")
    assert lease is not None
    other.board.nothing_left(ATTACK)
    assert other.board.take(ATTACK, shared=True) is None
    lease.give_back()
    assert other.board.take(ATTACK, shared=False) is not None


def test_what_is_given_back_while_one_looks_is_not_left_to_others(two: tuple[Process, Process]) -> None:
    one, other = two
    lease = one.team.take(ATTACK, "0000")
    assert lease is not None
    with other.board.take(ATTACK, shared=True) or pytest.fail():
        lease.give_back()  # it was stopped, after this process had passed by its chunk
        other.board.nothing_left(ATTACK)
    assert other.board.take(ATTACK, shared=False) is not None


def test_of_what_three_share_each_takes_what_another_gave_back(two: tuple[Process, Process]) -> None:
    one, other = two
    third = Process(one.store.root)
    lease = one.team.take(ATTACK, "0000")
    assert lease is not None
    with other.board.take(ATTACK, shared=True) or pytest.fail():
        assert third.team.take(ATTACK, "0001") is not None
        lease.give_back()
        other.board.nothing_left(ATTACK)
    assert other.board.take(ATTACK, shared=True) is not None


def test_nobody_is_left_to_do_what_nobody_holds(two: tuple[Process, Process]) -> None:
    one, other = two
    with other.board.take(ATTACK, shared=False) or pytest.fail():
        lease = one.team.take(ATTACK, "0000")
        assert lease is not None
        lease.give_back()
        other.board.nothing_left(ATTACK)
    assert other.board.take(ATTACK, shared=False) is not None


def test_one_may_leave_at_once_to_a_process_of_this_machine(two: tuple[Process, Process]) -> None:
    one, other = two
    assert one.team.take(ATTACK, "0000") is not None
    assert other.board.may_leave([ATTACK])


def test_one_may_leave_to_another_machine_after_its_next_heartbeat_and_not_before(two: tuple[Process, Process]) -> None:
    one, other = two
    assert one.team.take(ATTACK, "0000") is not None

    def beat(number: int) -> None:
        said = json.loads(one.team.member.file.read_bytes())
        one.team.member.file.write_text(json.dumps({**said, "host": "elsewhere", "beat": number}))

    beat(7)
    assert not other.board.may_leave([ATTACK]) and not other.board.may_leave([ATTACK]), "it may be dead"
    beat(8)
    assert other.board.may_leave([ATTACK])
    with other.board.take(TUNE, shared=False) or pytest.fail():
        pass
    assert not other.board.may_leave([ATTACK]), "it may have died while this one was busy"
    beat(9)
    assert other.board.may_leave([ATTACK])


def test_a_job_is_busy_while_another_process_holds_a_part_of_it(two: tuple[Process, Process]) -> None:
    one, other = two
    assert not other.board.busy(ATTACK)
    lease = one.team.take(ATTACK, "0000")
    assert lease is not None and other.board.busy(ATTACK)
    lease.give_back()
    assert not other.board.busy(ATTACK)


def test_a_holder_whose_file_vanishes_has_given_no_sign_of_life(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    assert one.team.take(ATTACK, "0000") is not None
    monkeypatch.setattr(other.team.members, "sign", lambda name: b"beat 7")
    assert not other.board.may_leave([ATTACK])
    monkeypatch.setattr(other.team.members, "sign", lambda name: b"")
    assert not other.board.may_leave([ATTACK])


def test_one_looks_once_more_at_what_nobody_holds(two: tuple[Process, Process]) -> None:
    assert not two[0].board.may_leave([ATTACK])
    assert two[0].board.may_leave([ATTACK])


def test_a_record_that_appears_is_the_work_of_another(two: tuple[Process, Process]) -> None:
    one, other = two
    assert other.board.ended(ATTACK, needed=False) is None
    one.store.write_record(make_record(ATTACK, "failed"))
    found = other.board.ended(ATTACK, needed=False)
    assert found is not None and found.status == "failed"
    later = Process(one.store.root)
    assert later.board.ended(ATTACK, needed=False) is None, "who comes later tries again"


def test_weights_are_made_again_only_where_they_are_needed_and_missing(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    one.store.write_record(make_record(TUNE))
    assert other.board.ended(TUNE, needed=True) is None, "the cache of this machine does not have them"
    assert other.board.ended(TUNE, needed=False) is not None
    place = other.cache.place(TUNE.key)
    place.mkdir(parents=True)
    (place / cache.MANIFEST).write_text("{}")
    assert other.cache.seems_to_have(TUNE.key)
    assert other.board.ended(TUNE, needed=True) is None, "what is there is damaged"
    monkeypatch.setattr(other.cache, "has", lambda key: key == TUNE.key)
    assert other.board.ended(TUNE, needed=True) is not None


def test_a_job_that_ends_while_it_is_taken_is_given_back(two: tuple[Process, Process]) -> None:
    one, other = two
    one.store.write_record(make_record(TUNE, "failed"))
    assert other.board.take(TUNE, shared=False) is None and other.team.holders(TUNE) == {}


# ------------------------------------------------------------------------------------------ jobs that kill processes


def deaths(root: Path, count: int) -> Process:
    """Let so many processes die with the training; return one that lives."""
    for _ in range(count):
        process = Process(root)
        assert process.board.take(TUNE, shared=False) is not None
        process.team.member.file.unlink()
    return Process(root)


def test_a_job_may_end_three_processes_and_not_a_fourth(tmp_path: Path) -> None:
    one = deaths(tmp_path, 3)
    assert one.team.died(TUNE) == 3 and one.team.died(ATTACK) == 0
    with one.board.take(TUNE, shared=False) or pytest.fail():
        one.team.check_deaths(TUNE)
    one = deaths(tmp_path, 1)
    one.team.check_deaths(TUNE)  # who does not hold it is not concerned
    for _ in range(2):
        with one.board.take(TUNE, shared=False) or pytest.fail():
            with pytest.raises(JobError):
                one.team.check_deaths(TUNE)
            one.team.check_deaths(ATTACK)


def test_a_training_that_writes_checkpoints_may_end_any_number_of_processes(tmp_path: Path) -> None:
    for step in range(6):
        one = deaths(tmp_path, 1)
        (one.cache.root / "checkpoints" / TUNE.key / f"checkpoint-{step}").mkdir(parents=True)
        with one.board.take(TUNE, shared=False) or pytest.fail():
            one.team.check_deaths(TUNE)
            assert one.team.died(TUNE) == step + 1


def test_the_end_of_a_run_in_order_forgets_deaths(tmp_path: Path) -> None:
    one = deaths(tmp_path, 4)
    one.team.member.file.unlink()
    with WorkerGroup(tmp_path).joined(lambda others: PLAN):
        pass
    assert one.team.died(TUNE) == 0, "the same command tries it again"


def test_of_the_parts_of_a_job_the_worst_counts(tmp_path: Path) -> None:
    for _ in range(2):
        process = Process(tmp_path)
        assert process.team.take(ATTACK, "0001") is not None
        process.team.member.file.unlink()
    one = Process(tmp_path)
    assert one.team.take(ATTACK, "0000") is not None and one.team.take(ATTACK, "0002") is not None
    assert one.team.died(ATTACK) == 2
    one.team.check_deaths(ATTACK)


@pytest.mark.parametrize("name", [".processes", ".processes/leases", ".processes/leases/joining", ".processes/members"])
def test_a_link_in_a_run_leads_to_no_deletion_elsewhere(name: str, tmp_path: Path) -> None:
    """A RUN of somebody else may have come with links."""
    home, run = tmp_path / "home", tmp_path / "run"
    for file in ("job.1", "a/job.1", "leases/a/job.1", "members/b.json", "x.json.12345678.tmp"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text('{"holder": "../../home/members/b"}')
    before = sorted(home.rglob("*"))
    (run / name).parent.mkdir(parents=True)
    (run / name).symlink_to(home)
    with pytest.raises(StoreError), WorkerGroup(run).joined(lambda others: PLAN):
        pass
    assert sorted(home.rglob("*")) == before


def test_the_sweep_follows_no_link(tmp_path: Path) -> None:
    home, run = tmp_path / "home", tmp_path / "run"
    for folder in (home, run / "attack"):
        folder.mkdir(parents=True)
    (home / "x.json.12345678.tmp").write_text("years of work")
    for link in (run / "tables", run / "attack" / "deep"):
        link.symlink_to(home)
    with WorkerGroup(run).joined(lambda others: PLAN):
        assert (home / "x.json.12345678.tmp").exists()


@pytest.mark.parametrize("holder", ["../../../home/x", "\\u0000", "a" * 5000, ""])
def test_a_lease_whose_holder_has_no_name_of_a_process_is_free(tmp_path: Path, holder: str) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    home.mkdir()
    (home / "x.json").write_text("a file that a name may lead to and that is no sign of life")
    lease = run / ".processes" / "leases" / "joining" / f"{WHOLE_JOB}.1"
    lease.parent.mkdir(parents=True)
    lease.write_text(f'{{"holder": "{holder}"}}')
    (run / ".processes" / "members").mkdir()
    team = WorkerGroup(run)
    assert team._leases.holder("joining", WHOLE_JOB) is None, "so nobody waits for it"
    with team.joined(lambda others: PLAN):
        assert not lease.exists()


DEEP = "[" * 100_000
DAMAGED = [
    *("", "null", "[1]", '"x"', "{", "NaN", DEEP, '{"doing": ' + DEEP, "\udcff", "9" * 5000),
    '{"plan": ["x"], "doing": ["x"], "since": NaN, "pid": "1", "host": {}, "threads": "many"}',
    '{"plan": "p", "doing": {"job": ["x"], "done": 1e999, "total": "many", "since": {}}, "workers": -1, "pid": 1e308}',
    '{"plan": "p", "id": ["x"], "host": "h", "pid": ' + "9" * 400 + ', "workers": ' + "9" * 400 + "}",
    '{"plan": "p", "id": "../../x", "pid": 1}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_files_of_processes_are_no_processes(tmp_path: Path, content: str) -> None:
    """What says which plan it runs counts as a process until it has been silent for long. The rest is ignored."""
    store = RunStore(tmp_path)
    store.write_plan(PLAN)
    members = tmp_path / ".processes" / "members"
    leases = tmp_path / ".processes" / "leases" / ATTACK.key[:16]
    for file in (
        members / "aaaaaaaaaaaa.json",
        leases / f"{WHOLE_JOB}.1",
        leases / "0000.7",
        leases / f"0000.{'9' * 200}",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, errors="surrogateescape")
    plain = '"plan": "p"' not in content
    found = api.status(tmp_path)
    assert [(one.job, one.done, one.total, one.workers) for one in found.processes] == [(None, 0, 0, 1)] * (not plain)
    assert "another process" in name_processes(WorkerGroup(tmp_path).members.living())
    told: list[list[dict[str, Any]]] = []
    with WorkerGroup(tmp_path).joined(lambda others: [told.append(others), PLAN][1]):  # type: ignore[return-value]
        assert [one["id"] for one in told[0]] == ["aaaaaaaaaaaa"] * (not plain)
        assert crowding_warning(told[0], 1, 8) is None


def test_a_lease_that_says_nonsense_of_deaths_fails_no_job(tmp_path: Path) -> None:
    leases = tmp_path / ".processes" / "leases" / ATTACK.key[:16]
    leases.mkdir(parents=True)
    for deaths in (-5, 10**30, "4", float("inf"), [], True):
        (leases / f"{WHOLE_JOB}.1").write_text(json.dumps({"holder": "gone", "deaths": deaths, "died": deaths}))
        team = WorkerGroup(tmp_path)
        with team.member.present():
            assert team.take(ATTACK) is not None
            team.check_deaths(ATTACK)
            team.give_back(ATTACK)
        for file in leases.iterdir():
            file.unlink()
