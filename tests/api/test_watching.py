"""Tests what `rbench status` says of a RUN: states of jobs, processes, and the time that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.execution.cluster.scheduler import WorkerGroup
from rbench.schema import Job, Provenance, Record
from rbench.store.runs import RunStore
from tests.tables.conftest import finish, make_outcomes, make_plan, make_suite

PLAN = make_plan(make_suite(seeds=(0,)))
ATTACKS = [job for job in PLAN.jobs if job.stage == "attack"]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = RunStore(tmp_path / "run")
    store.write_plan(PLAN)
    return store


def alike(job: Job) -> list[Job]:
    """The attacks of the same kind, on the same task."""
    return [one for one in ATTACKS if (one.parts[1], one.parts[-1]) == (job.parts[1], job.parts[-1])]


def test_a_run_that_nobody_works_on(store: RunStore) -> None:
    found = api.status(store.root)
    assert found.processes == () and not found.complete
    assert found.jobs == {"attack": {"done": 0, "failed": 0, "under way": 0, "to do": len(ATTACKS)}}
    assert (found.hours, found.unmeasured) == (0.0, len(ATTACKS))
    assert {path.name for path in store.root.iterdir()} == {"plan.json"}, "it writes nothing"


def test_states_and_processes(store: RunStore) -> None:
    done, failed, taken = ATTACKS[:3]
    finish(store, done, sealed=True)
    record = store.record(done)
    assert record is not None
    store.write_record(Record(job=failed, status="failed", provenance=record.provenance, error="x"))
    team = WorkerGroup(store.root)
    with team.joined(lambda others: PLAN):
        lease = team.take(taken, "0001")
        team.member.publish(job=taken.name, since="2026-11-23T07:00:00+00:00", done=3, total=20)
        team.member.about["workers"] = 2
        team.member.write_heartbeat()
        found = api.status(store.root)
        (one,) = found.processes
        assert (one.job, one.done, one.total, one.workers) == (taken.name, 3, 20, 2)
        assert lease is not None
        assert found.jobs["attack"] == {"done": 1, "failed": 1, "under way": 1, "to do": len(ATTACKS) - 3}
        again = team.take(failed, "0000")
        assert again is not None
        found = api.status(store.root)
        assert found.jobs["attack"] == {"done": 1, "failed": 0, "under way": 2, "to do": len(ATTACKS) - 3}
        assert found.failures == (), "it is tried again"
        again.give_back()
        lease.give_back()
        assert api.status(store.root).jobs["attack"]["under way"] == 0
    assert api.status(store.root).processes == ()


def test_a_job_that_failed_is_named_with_those_that_wait_for_it(tmp_path: Path) -> None:
    first, second, third, other = ATTACKS[:4]
    chained = [first]
    for job in (second, third):
        chained.append(Job.make(job.spec, job.parts, {"victim": chained[-1].key}, job.seed))
    store = RunStore(tmp_path / "run")
    store.write_plan(PLAN.model_copy(update={"jobs": (*chained, other)}))
    assert api.status(store.root).failures == ()
    store.write_record(
        Record(job=first, status="failed", provenance=Provenance(rbench="0"), error="a\nValueError: b\n")
    )
    (found,) = api.status(store.root).failures
    assert (found.name, found.error) == (first.name, "ValueError: b")
    assert found.waiting == (chained[1].name, chained[2].name), "also what needs them in turn, and nothing else"


def test_the_time_left_is_that_of_the_examples_that_are_left(store: RunStore) -> None:
    done = ATTACKS[0]
    finish(store, done, sealed=True)
    seconds = [outcome.seconds for outcome in make_outcomes(done)]
    others = alike(done)[1:]
    assert others
    store.write_outcomes(others[0], make_outcomes(others[0])[:5])
    found = api.status(store.root)
    by_attack = [one for one in ATTACKS if one.parts[-1] == done.parts[-1] and one is not done]
    left = 20 * len(by_attack) - 5
    assert found.hours == pytest.approx(left * sum(seconds) / len(seconds) / 3600)
    assert found.unmeasured == len(ATTACKS) - 1 - len(by_attack)
    team = WorkerGroup(store.root)
    with team.joined(lambda others: PLAN):
        team.member.about["workers"] = 4
        team.member.write_heartbeat()
        assert api.status(store.root).hours == pytest.approx(found.hours / 4)


def test_a_complete_run(store: RunStore) -> None:
    for job in PLAN.jobs:
        finish(store, job, sealed=True)
    found = api.status(store.root)
    assert found.complete and (found.hours, found.unmeasured) == (0.0, 0)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.status(tmp_path)
