"""Tests that examples which time out do not fail a job, are told, and are tried again only when asked."""

from __future__ import annotations

import json

import pytest

from rbench.schema import FinetuneJob, Job, Outcome, Plan, Record
from rbench.store import timeouts
from rbench.store.runs import RunStore
from tests.store.builders import make_job, make_outcome, make_record
from tests.store.conftest import N, World

PWWS, RANDOM = "pwws", "random"
LATE = {"status": "errored", "error": "TimedOut: it took longer than 1 s (--max-seconds)"}


@pytest.fixture
def late(world: World) -> World:
    """A RUN whose attack PWWS timed out on every example that asks its victim twice."""
    for name in ("record.json", "outcomes.jsonl"):
        world.file(PWWS, name).unlink()
    result, told = world.run(max_seconds=1e-9)
    assert not result.failed and len(told.started) == 1
    assert result.errored == {"TimedOut": record(world).counts["timed_out"]}
    return world


def record(world: World) -> Record:
    found = world.store.record(world.job(PWWS))
    assert found is not None
    return found


def test_a_cell_with_time_outs_is_complete_and_says_so(late: World) -> None:
    counts = record(late).counts
    assert counts["timed_out"] == counts["errored"] > N / 2
    assert record(late).provenance.max_seconds == 1e-9
    outcomes = late.store.outcomes(late.job(PWWS))
    assert sum(outcome.timed_out for outcome in outcomes) == counts["timed_out"]
    assert all(outcome.seconds > 0 for outcome in outcomes if outcome.timed_out)
    table = late.table()
    assert f"errored 0 to {counts['errored']}, of these timed out 0 to {counts['timed_out']}" in table
    assert f"{counts['timed_out']} examples took longer than --max-seconds (1e-09 s) and timed out." in table
    cells = json.loads(late.table(fmt="json"))["cells"]
    assert [cell["timed_out"] for cell in cells if cell["attack"] == PWWS] == [counts["timed_out"]]


@pytest.mark.nightly
def test_time_outs_are_tried_again_when_asked_and_not_before(late: World, whole: World) -> None:
    result, told = late.run()
    assert told.started == [] and result.errored["TimedOut"] == record(late).counts["timed_out"]
    n = record(late).counts["timed_out"]
    result, told = late.run(retry_timeouts=True)
    assert [note for note in told.notes if "tried again" in note] == [
        f"{late.job(PWWS).name}: {n} examples that timed out are tried again"
    ]
    assert not result.failed and not result.errored and len(told.started) == 1
    assert late.table() == whole.table(), "as if nothing had timed out"
    assert late.run(retry_timeouts=True)[1].started == []


def chain(*, trained: bool) -> tuple[Job, Job, Plan]:
    """An attack, and a job that needs its outcomes: one that trains, or one that does not."""
    attack = make_job()
    spec = make_job("bae").spec
    if trained:
        spec = FinetuneJob.model_construct(stage="finetune")
    after = Job.model_construct(
        stage="finetune" if trained else "attack",
        parts=("minilm", "after"),
        seed=0,
        key="f" * 64,
        needs={"attack": attack.key},
        spec=spec,
    )
    return attack, after, Plan.model_construct(jobs=(attack, after))


@pytest.mark.parametrize("complete", [True, False])
def test_all_that_timed_out_goes_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, complete: bool) -> None:
    store, (attack, _, plan) = RunStore(tmp_path_factory.mktemp("run")), chain(trained=False)
    plan = Plan.model_construct(jobs=(attack,))
    kept = [make_outcome("a"), make_outcome("b", status="errored", error="ValueError: x")]
    outcomes = [*kept, make_outcome("c", **LATE)]
    store.write_outcomes(attack, outcomes[:2])
    part = store.folder(attack) / "outcomes.dead.jsonl"
    other = store.folder(attack) / "outcomes.jsonl"
    early = other.read_bytes()
    digest = store.write_outcomes(attack, outcomes)
    if complete:
        whole = make_record(attack).model_copy(update={"counts": {"timed_out": 1}, "outcomes": digest})
        store.write_record(whole)
    else:
        part.write_bytes(early)
    said = timeouts.forget_timed_out(store, plan, plan.jobs)
    assert said == [f"{attack.name}: 1 example that timed out is tried again"]
    assert store.outcomes(attack) == kept
    assert not part.exists() and store.look(attack).record is None
    assert timeouts.forget_timed_out(store, plan, plan.jobs) == []


def remembered(store: RunStore, job: Job) -> None:
    path = store.folder(job) / "record.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}", encoding="utf-8")


@pytest.mark.parametrize(("trained", "status"), [(True, "complete"), (True, "failed"), (False, "complete")])
def test_what_was_made_of_the_outcomes_is_made_again_unless_it_learned_from_them(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, trained: bool, status: str
) -> None:
    store, (attack, after, plan) = RunStore(tmp_path_factory.mktemp("run")), chain(trained=trained)
    store.write_outcomes(attack, [make_outcome("a", **LATE)])
    remembered(store, after)
    look = RunStore.look
    done = make_record(attack).model_copy(update={"status": status})
    trained = trained and status == "complete"
    monkeypatch.setattr(
        RunStore, "look", lambda self, job: look(self, job) if job is attack else type(look(self, attack))(done)
    )
    said = timeouts.forget_timed_out(store, plan, [attack])
    assert ("not tried again, because finetune/minilm/after" in said[0]) == trained
    assert (store.folder(after) / "record.json").exists() == trained
    assert len(store.outcomes(attack)) == trained


def test_time_outs_do_not_fail_a_job_and_other_errors_do() -> None:
    from rbench.errors import JobError
    from rbench.execution.attacks import _check_errors

    late = [Outcome(example_id=str(i), original=None, **LATE) for i in range(9)]  # type: ignore[arg-type]
    _check_errors(late)
    with pytest.raises(JobError):
        _check_errors([*late, *(make_outcome(name, status="errored", error="ValueError: x") for name in "ab")])
