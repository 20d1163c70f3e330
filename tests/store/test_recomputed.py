"""Tests that `rbench verify` finds each stored number that does not follow from the lines beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.schema import AttackJob, Job
from rbench.store.runs import RunStore
from rbench.store.runs.files import unseal
from rbench.store.verify import verify
from tests import reference
from tests.store.conftest import World
from tests.store.damage import PWWS
from tests.stored import rewrite

FIELDS = ("value", "n", "low", "high", "sd", "units")


def first(run: str, of: str, **wanted: str) -> Callable[[Path], tuple[RunStore, Job]]:
    """Copies the first job of a kind out of a committed RUN, as a RUN of its own."""

    def copy(root: Path) -> tuple[RunStore, Job]:
        source, store = RunStore(reference.unpacked(run, root.with_name(f"{root.name}-whole"))), RunStore(root)
        plan = source.plan()
        assert plan is not None
        job = next(
            job
            for job in plan.jobs
            if (job.what or job.stage) == of
            and source.record(job) is not None
            and all(getattr(job.spec.task, name) == value for name, value in wanted.items())  # type: ignore[union-attr]
        )
        shutil.copytree(source.folder(job), store.folder(job))
        needed = {job.key}
        for other in reversed(plan.jobs):
            needed |= set(other.needs.values()) if other.key in needed else set()
        store.write_plan(plan.model_copy(update={"jobs": tuple(one for one in plan.jobs if one.key in needed)}))
        return store, job

    return copy


JOBS = {
    "an attack": first("table1-local", "attack"),
    "an attack on similarity": first("robustsentembed-table2-local", "attack", kind="sts"),
    "a contrast set": first("cline-table4-local", "contrast"),
    "an adversarial set": first("cline-table5-local", "adversarial"),
    "an evaluation": first("vadvcse-table1-local", "sts"),
}


def changes(record: dict[str, Any], each: bool) -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """Changes of a record, each of one stored number, with what the finding names.

    All numbers of the first score, and of each further one its value, or with `each` all of all.
    """
    for at, score in enumerate(record["scores"]):
        if ":" in score["name"]:
            continue  # of a subset: rows do not say which pairs it has
        for field in FIELDS if each or at == 0 else ("value",):
            value = score[field]
            new = 0.25 if value is None else value + 1 if field == "n" else value * 0.99 + 0.002

            def change(changed: dict[str, Any], at: int = at, field: str = field, new: float = new) -> None:
                changed["scores"][at][field] = new

            yield score["name"], change
        if each or at == 0:
            yield score["name"], lambda changed, at=at: changed["scores"].pop(at)
            yield "twice", lambda changed, score=score: changed["scores"].append({**score, "name": "twice"})


def refuted(store: RunStore, job: Job, change: Callable[[dict[str, Any]], Any]) -> str:
    """What `verify` says of a record after a change, which is then taken back."""
    path = store.folder(job) / "record.json"
    whole = path.read_bytes()
    rewrite(path, change)
    try:
        return "\n".join(finding.text for finding in verify(store.root).findings if finding.damage)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["some", "each"])
@pytest.mark.parametrize("copied", JOBS.values(), ids=list(JOBS))
def test_every_stored_score_is_compared_with_the_lines(
    tmp_path: Path, copied: Callable[[Path], tuple[RunStore, Job]], each: bool
) -> None:
    store, job = copied(tmp_path / "run")
    assert not verify(store.root).findings
    record = json.loads(unseal((store.folder(job) / "record.json").read_bytes()))
    tried = 0
    for name, change in changes(record, each):
        said = refuted(store, job, change)
        assert name in said or "are impossible" in said or "has no" in said, (name, said)
        tried += 1
    assert tried >= (2 * 7 if each else 8)


def test_the_oracle_valid_rate_is_compared_with_the_outcomes(whole: World, tmp_path: Path) -> None:
    """It is read from the score, not from a count."""
    shutil.copytree(whole.root, tmp_path / "run")
    store, job = RunStore(tmp_path / "run"), whole.job(PWWS)
    record = store.record(job)
    assert record is not None
    (rate,) = (score for score in record.scores if score.name == "oracle_asr")
    assert rate.value is not None

    def halved(changed: dict[str, Any]) -> None:
        (own,) = (score for score in changed["scores"] if score["name"] == "oracle_asr")
        own["value"] = (own["value"] or 1.0) / 2

    assert "oracle_asr has the value" in refuted(store, job, halved)


def test_a_rate_that_was_changed_on_the_disk_is_in_no_table(whole: World, tmp_path: Path) -> None:
    """A table showed half of the oracle-valid rate beside the right ASR, since it reads the one and computes the other.

    Without a new checksum, as a fault of a disk or an editor leaves it.
    """
    shutil.copytree(whole.root, tmp_path / "run")
    store, job = RunStore(tmp_path / "run"), whole.job(PWWS)
    path = store.folder(job) / "record.json"
    record = json.loads(path.read_bytes())
    (rate,) = (score for score in record["scores"] if score["name"] == "oracle_asr")
    rate["value"] = (rate["value"] or 1.0) / 2
    path.write_text(json.dumps(record))
    assert f"1 of 2 attack jobs damaged: {job.name.removeprefix('attack/')}" in api.table(store.root, notes="full")


@pytest.mark.parametrize("copied", JOBS.values(), ids=list(JOBS))
def test_every_count_that_follows_from_the_lines_is_compared(
    tmp_path: Path, copied: Callable[[Path], tuple[RunStore, Job]]
) -> None:
    store, job = copied(tmp_path / "run")
    record = store.record(job)
    assert record is not None
    own = {"bundles", "edits", "rows", "changed", "n"}
    for name in record.counts if isinstance(job.spec, AttackJob) else own & record.counts.keys():

        def more(changed: dict[str, Any], name: str = name) -> None:
            changed["counts"][name] += 1

        said = refuted(store, job, more)
        assert name in said or "are impossible" in said or "has 12 outcomes" in said or "counts" in said, (name, said)
    if isinstance(job.spec, AttackJob):
        assert "it counts wordless, of which there are none" in refuted(
            store, job, lambda changed: changed["counts"].update(wordless=0)
        )


def test_rows_of_a_measure_are_counted(tmp_path: Path) -> None:
    store, job = first("robustsentembed-figure3-local", "alignment")(tmp_path / "run")
    assert not verify(store.root).findings
    assert "it counts" in refuted(store, job, lambda changed: changed["counts"].update(rows=1000))
    score = {"name": "x", "value": 1.0, "n": 1}
    assert "it has the scores x" in refuted(store, job, lambda changed: changed["scores"].append(score))


def test_the_health_of_a_victim_follows_from_its_accuracy(whole: World, tmp_path: Path) -> None:
    shutil.copytree(whole.root, tmp_path / "run")
    store, job = RunStore(tmp_path / "run"), whole.job("finetune/")
    assert not verify(store.root).damaged

    def other(changed: dict[str, Any]) -> None:
        changed["scores"][0]["value"] *= 0.9

    assert "its health is not that of validation_accuracy" in refuted(store, job, other)
    assert "its health is not that of validation_accuracy" in refuted(
        store, job, lambda changed: changed["health"]["values"].update({"majority share": 0.123})
    )
