"""Tests that `rbench verify` finds all changes, says where they are and what to do, and changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import StoreError
from rbench.schema import Job
from rbench.store.job_status import load_statuses
from rbench.store.runs import PartialOutcomes, RunStore
from rbench.store.verify import verify
from tests import reference
from tests.store.conftest import World
from tests.store.damage import CONTRAST, PWWS, RANDOM, alter_line, drop_line
from tests.stored import rewrite
from tests.tables.conftest import finish, make_outcomes, make_plan, make_record, make_suite


def shell(*words: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


def test_a_run_that_is_whole_is_verified(whole: World) -> None:
    before = {file: file.stat().st_mtime_ns for file in whole.root.rglob("*")}
    statuses = {outcome.status for end in (PWWS, RANDOM) for outcome in whole.store.outcomes(whole.job(end))}
    assert statuses >= {"succeeded", "failed"}, "there is something to be counted"
    found = api.verify(whole.root)
    assert not found.findings and not found.damaged
    assert found.counts == {"verified": 6, "damaged": 0, "not done": 0}
    result = shell("verify", whole.root)
    derived, counted = result.stdout.splitlines()
    assert (result.exit_code, counted) == (0, "6 jobs: 6 verified, 0 damaged, 0 not done")
    assert derived.startswith("not verified: tables, report.html")
    assert {file: file.stat().st_mtime_ns for file in whole.root.rglob("*")} == before


def stale_record(world: World) -> None:
    """The record of a sample that ended otherwise, over its outcomes."""
    record = json.loads(world.file(RANDOM, "record.json").read_text(encoding="utf-8"))
    rewrite(
        world.file(PWWS, "record.json"), lambda own: own.update(counts=record["counts"] | {"succeeded": 1, "failed": 0})
    )


DAMAGE: dict[str, tuple[Callable[[World], object], str]] = {
    "a line is missing": (lambda w: drop_line(w.file(PWWS), 3), "11 of 12 outcomes are there and sound"),
    "a line was altered": (lambda w: alter_line(w.file(PWWS), 3), "line 3: it was changed after it was written"),
    "the file is missing": (lambda w: w.file(PWWS).unlink(), "outcomes.jsonl is missing"),
    "the record is empty": (lambda w: w.file(PWWS, "record.json").write_text(""), "record.json is damaged"),
    "the key is not that of the content": (
        lambda w: rewrite(w.file(PWWS, "record.json"), lambda r: r["job"].update(seed=1)),
        "its key is not that of its content",
    ),
    "a count is wrong": (stale_record, "are impossible."),
    "a count is lacking": (
        lambda w: rewrite(w.file(PWWS, "record.json"), lambda r: r["counts"].pop("failed")),
        "has no 'failed'",
    ),
    "an example is counted otherwise": (
        lambda w: rewrite(
            w.file(PWWS, "record.json"),
            lambda r: r["counts"].update(skipped=r["counts"]["skipped"] + 1, errored=r["counts"]["errored"] - 1),
        ),
        "are impossible.",
    ),
    "a count is wrong by itself": (
        lambda w: rewrite(w.file(PWWS, "record.json"), lambda r: r["counts"].update(truncated=3)),
        "it counts 3 truncated, but there are 0",
    ),
    "the health of an attack is wrong": (
        lambda w: rewrite(w.file(PWWS, "record.json"), lambda r: r["health"]["values"].update({"words asked": 1.0})),
        "its health is not that of the lines beside the record",
    ),
    "a flag is missing or too many": (
        lambda w: rewrite(
            w.file(PWWS, "record.json"),
            lambda r: r["health"].update(flags=[{"flag": "near chance", "because": "so it is"}]),
        ),
        "its health is not that of the lines beside the record",
    ),
    "predictions were altered": (
        lambda w: alter_line(w.file(CONTRAST, "predictions.jsonl"), 2, b'"label": ', b'"label": 1'),
        "lines were changed",
    ),
}


"""All but a number that does not follow from the lines beside it: see `test_recomputed.py`."""


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=list(DAMAGE))
def test_damage_is_found_and_told_with_its_remedy(world: World, damage: Callable[[World], object], words: str) -> None:
    damage(world)
    found = verify(world.root)
    assert found.damaged
    assert found.counts["damaged"] == 1 and found.counts["verified"] == 5
    (finding,) = found.findings
    assert words in finding.text and str(world.root) in finding.text and "\n" not in finding.text
    assert "delete" in finding.text.lower() or "rbench run" in finding.text


@pytest.mark.parametrize("name", ["a line was altered", "a flag is missing or too many", "predictions were altered"])
def test_the_remedy_that_is_told_works(world: World, name: str) -> None:
    DAMAGE[name][0](world)
    (finding,) = verify(world.root).findings
    result = shell("verify", world.root)
    assert result.exit_code == 1 and f"damaged: {finding.text}\n" in result.stdout
    if "elete" in finding.text:
        job = world.job(CONTRAST if "measure" in finding.text else PWWS)
        (world.store.folder(job) / "record.json").unlink()
    world.run()
    assert not verify(world.root).damaged


def test_a_job_under_way_is_not_done_and_its_lines_are_read(world: World) -> None:
    world.file(PWWS, "record.json").unlink()
    drop_line(world.file(PWWS), 2)
    found = verify(world.root)
    assert not found.damaged and found.counts["not done"] == 1
    alter_line(world.file(PWWS), 4)
    (finding,) = verify(world.root).findings
    assert "line 4: it was changed" in finding.text
    world.run()
    assert verify(world.root).counts["verified"] == 6


def test_folders_of_no_job_are_mentioned_and_are_no_damage(world: World) -> None:
    folder = world.file(PWWS).parent
    stranger = folder.with_name("0123456789abcdef")
    shutil.copytree(folder, stranger)
    found = verify(world.root)
    assert not found.damaged
    assert [finding.text.split()[0] for finding in found.findings] == [str(stranger)]
    result = shell("verify", world.root)
    assert result.exit_code == 0 and f"note: {stranger} belongs to no job of the plan" in result.stdout
    shutil.rmtree(stranger)
    assert not verify(world.root).findings


def test_a_plan_whose_keys_are_not_those_of_its_jobs_is_damaged(world: World) -> None:
    def change(plan: dict[str, Any]) -> None:
        plan["jobs"][-1]["spec"]["num_examples"] = 99

    rewrite(world.root / "plan.json", change)
    (finding,) = verify(world.root).findings
    assert "plan.json" in finding.text and "Run the suite again" in finding.text
    world.run()
    assert not verify(world.root).findings


def test_what_is_no_run_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        verify(tmp_path / "mistyped")
    (world.root / "plan.json").write_text("{")
    assert shell("verify", world.root).exit_code == 2
    world.run()
    assert shell("verify", world.root).exit_code == 0


@pytest.fixture
def attacked(tmp_path: Path) -> tuple[RunStore, Job]:
    """A RUN of one attack job."""
    store, plan = RunStore(tmp_path / "run"), make_plan(make_suite(seeds=(0,)))
    job = plan.jobs[0]
    store.write_plan(plan.model_copy(update={"jobs": (job,)}))
    finish(store, job, sealed=True)
    assert verify(store.root).counts["verified"] == 1
    return store, job


def digest_of(store: RunStore, job: Job, outcomes: list[Any]) -> None:
    """Replace the outcomes of a job, and their digest in its record."""
    record = store.record(job)
    assert record is not None
    store.write_record(record.model_copy(update={"outcomes": store.write_outcomes(job, outcomes)}))


def test_a_complete_record_lists_the_lines_beside_it(attacked: tuple[RunStore, Job]) -> None:
    store, job = attacked
    rewrite(store.folder(job) / "record.json", lambda record: record.update(outcomes=None))
    (finding,) = verify(store.root).findings
    assert "record.json: it has no digest of its outcomes. Delete the record" in finding.text


def test_an_example_that_is_there_twice_is_named(attacked: tuple[RunStore, Job]) -> None:
    store, job = attacked
    outcomes = make_outcomes(job)
    digest_of(store, job, [*outcomes, outcomes[3]])
    (finding,) = verify(store.root).findings
    assert "example test:3 is there more than once. Delete the record" in finding.text
    (store.folder(job) / "record.json").unlink()
    (finding,) = verify(store.root).findings
    assert "example test:3 is there more than once. The same rbench run repairs that" in finding.text
    parts = PartialOutcomes(store, job, [one.example_id for one in outcomes], "next", lambda writer, outcome: True)
    parts.look()
    parts.merge([*parts.outcomes.values()])
    assert not verify(store.root).findings


@pytest.mark.nightly
@pytest.mark.parametrize("run", reference.third(0))
def test_nothing_committed_is_damaged(run: str) -> None:
    found = verify(reference.run(run))
    assert not [finding for finding in found.findings if finding.damage], found.findings


def test_texts_without_words_are_among_what_a_record_is_of(tmp_path: Path) -> None:
    """They are in no rate, but they have outcomes: the record is whole with them, and not without."""
    store, plan = RunStore(tmp_path / "run"), make_plan(make_suite(seeds=(0,)))
    job = plan.jobs[0]
    outcomes = [
        outcome.model_copy(update={"skip_reason": "no words"}) if outcome.status == "skipped" else outcome
        for outcome in make_outcomes(job)
    ]
    record = make_record(job, outcomes)
    assert record.counts["wordless"] > 0 and record.counts["errored"] + record.counts["succeeded"] > 0
    store.write_plan(plan)
    digest = store.write_outcomes(job, outcomes)
    store.write_record(record.model_copy(update={"outcomes": digest}))
    assert load_statuses(store, plan).done == {job.key}
    assert verify(store.root).counts["verified"] == 1 and not verify(store.root).findings
    less = record.counts | {"wordless": record.counts["wordless"] - 1}
    store.write_record(record.model_copy(update={"outcomes": digest, "counts": less}))
    assert not load_statuses(store, plan).done and verify(store.root).counts["damaged"] == 1
