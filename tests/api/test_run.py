"""Tests how a run enters the folder of a RUN: alone, beside others with the same plan, and where others run another."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.errors import StoreError
from rbench.execution.cluster.scheduler import WorkerGroup, plan_digest
from rbench.execution.run import JoinedRun, _check_crowding, _describe_others, _RunPreparation
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, Plan
from rbench.store.runs import RunStore
from tests.refusals import refusal
from tests.store.conftest import Told
from tests.tables.conftest import make_plan, make_suite

PLAN = make_plan(make_suite(seeds=(0,)))
OTHER = {"id": "a", "pid": 17, "host": "node-1", "since": "2026-11-23T07:00:00+00:00", "plan": plan_digest(PLAN)}


@dataclass(frozen=True)
class Prepared:
    plan: Plan = PLAN
    loaded: Any = field(default_factory=lambda: SimpleNamespace(path=None))


def joined(
    store: RunStore,
    others: list[dict[str, Any]],
    plan: Plan = PLAN,
    living: list[dict[str, Any]] | None = None,
    **options: Any,
) -> tuple[Plan, list[str]]:
    told = Told([], [])
    surely = others if living is None else living
    made = _RunPreparation(store, Prepared(plan), Options(**options), told, lambda: surely)  # type: ignore[arg-type]
    plan = made.prepare(others)
    assert made.prepared.plan == plan
    return plan, told.notes


def test_the_first_process_writes_the_plan_and_the_next_ones_share_it(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert joined(store, []) == (PLAN, [])
    written = (tmp_path / "plan.json").stat().st_mtime_ns
    plan, notes = joined(store, [OTHER])
    assert plan == PLAN == store.plan()
    assert notes == [f"{tmp_path} is shared with process 17 on node-1 since 2026-11-23T07:00:00+00:00"]
    assert (tmp_path / "plan.json").stat().st_mtime_ns == written


def test_another_plan_is_refused_while_others_work(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    joined(store, [])
    fewer = PLAN.model_copy(update={"jobs": PLAN.jobs[1:]})
    with refusal(StoreError, "17", "node-1", "--limit", "--out"):
        joined(store, [OTHER], fewer)
    assert store.plan() == PLAN
    joined(store, [], fewer)
    assert store.plan() == fewer


def test_fresh_is_refused_while_others_work(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    joined(store, [])
    with pytest.raises(StoreError):
        joined(store, [OTHER], fresh=True)
    assert store.plan() == PLAN
    _, notes = joined(store, [], fresh=True)
    assert notes[0].startswith("the old results are in ")


def test_who_died_on_another_machine_stands_in_nobodys_way(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    joined(store, [])
    fewer = PLAN.model_copy(update={"jobs": PLAN.jobs[1:]})
    assert joined(store, [OTHER], fewer, living=[]) == (fewer, []) and store.plan() == fewer
    _, notes = joined(store, [OTHER], fresh=True, living=[])
    assert notes[0].startswith("the old results are in ")
    assert joined(store, [OTHER], living=[], retry_timeouts=True)[1] == []
    assert "--retry-timeouts: the first process here" in joined(store, [OTHER], retry_timeouts=True)[1][-1]
    assert "shared with process 17" in joined(store, [OTHER], living=[])[1][0], "with the same plan nobody waits"


def test_who_joins_a_run_without_texts_writes_none(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    bare, _ = joined(store, [], texts=False)
    assert not bare.texts
    beside = RunStore(tmp_path)
    plan, _ = joined(beside, [{**OTHER, "plan": plan_digest(bare)}])
    assert plan == bare and not beside.texts


def test_the_second_process_of_this_machine_hears_of_too_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbench.execution.run.cores", lambda: 2)
    monkeypatch.setattr("rbench.execution.run.limit_threads", lambda: 2)
    told, one, other = Told([], []), WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    with one.joined(lambda others: PLAN):
        _check_crowding(one, told)
        assert told.notes == []
        with other.joined(lambda others: PLAN):
            _check_crowding(other, told)
            assert all(part in told.notes[0] for part in ("2 processes", "2 cores", "4 threads"))
            one.member.write_heartbeat()
            assert [each["threads"] for each in other.members.living() if each["id"] == one.member.id] == [2]


def test_what_is_left_to_a_process_is_said_with_its_number(tmp_path: Path) -> None:
    """One that is stopped keeps what it has, and another one that ends must not look as if all were done."""
    store, job = RunStore(tmp_path), PLAN.jobs[0]
    stopped, ending = WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    with stopped.joined(lambda others: PLAN), ending.joined(lambda others: PLAN):
        assert stopped.take(job, "0000") is not None
        run = JoinedRun(None, store, ending, None, (job,), [job])  # type: ignore[arg-type]
        said = _describe_others(run, [job])
    assert isinstance(job.spec, AttackJob)
    n = job.spec.num_examples
    assert said.startswith(f" ({n} of {n} examples to attack are left): process {os.getpid()} on ")
    assert said.endswith(f" has {job.name}")
