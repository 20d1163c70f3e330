"""Tests suites with `evaluate: [contrast]`, from the file to the record and the predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rbench import api
from rbench.api.suites import prepare_suite
from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import ResourceError
from rbench.plan.prepare import Options
from rbench.schema import Job, Plan, Record
from rbench.score.contrast import contrast_scores, group_into_bundles
from rbench.score.packed import unpack_numbers
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from tests import tiny
from tests.films import SET_YAML, TASK_YAML, write_edits, write_rows, write_text

SUITE = (
    "encoders: [toy]\ntasks: [films]\nevaluate: [contrast]\nfinetune: [clean, probe]\nseeds: [0, 1]\nresources: mini\n"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_text(tmp_path / "mine/tasks/films.yaml", TASK_YAML)
    write_text(tmp_path / "mine/contrast/films-edited.yaml", SET_YAML)
    write_text(tmp_path / "mine/encoders/toy.yaml", "base: toy\npooling: mean\n")
    write_text(tmp_path / "suite.yaml", SUITE)
    tiny.write_bert(tmp_path / "models" / "toy")
    data = tiny.data(train=64)
    for split in ("train", "validation", "test"):
        rows = [{"text": example.texts[0], "label": example.label} for example in data.split(split)]
        write_rows(tmp_path / f"data/films/{split}.jsonl", rows)
    write_edits(tmp_path)
    return tmp_path


def options(place: Path, **more: Any) -> Options:
    folders = {"include": (place / "mine",), "data": (place / "data",), "models": (place / "models",)}
    return Options(**folders, device="cpu", **more)


def job_of(plan: Plan, name: str) -> Job:
    (job,) = [job for job in plan.jobs if job.name == name]
    return job


def record_of(store: RunStore, job: Job) -> Record:
    record = store.record(job)
    assert record is not None
    return record


# --------------------------------------------------------------------------------------------------------- whole runs


def test_a_suite_evaluates_each_victim_right_after_it_is_made(place: Path) -> None:
    planned = api.plan("suite.yaml", options(place))
    assert [job.name for job in planned.jobs] == [
        f"{stage}/toy/films/{strategy}{end}/seed{seed}"
        for seed in (0, 1)
        for strategy in ("clean", "probe")
        for stage, end in (("finetune", ""), ("measure", "/films-edited"))
    ]
    for victim, evaluation in zip(planned.jobs[::2], planned.jobs[1::2], strict=True):
        assert evaluation.needs == {"victim": victim.key} and evaluation.what == "contrast"
        assert planned.estimates[evaluation.key].examples == 90
    assert "films-edited: local" in " ".join(planned.notes)


def test_records_and_rows_are_what_the_victim_says_text_by_text(place: Path) -> None:
    write_text(place / "suite.yaml", SUITE.replace("[contrast]", "[contrast, sensitivity]").replace("[0, 1]", "[0]"))
    result = api.run("suite.yaml", options(place))
    assert not result.failed and result.complete == 6
    assert any("films Con" in table for table in result.tables) and (result.run / "tables" / "contrast.tex").is_file()
    store, plan = RunStore(result.run), prepare_suite("suite.yaml", options(place)).plan
    for job in plan.jobs:
        if job.what == "contrast":
            check(store, job)
        elif job.what == "sensitivity":
            check_sensitivity(store, job)
    found = api.compare(result.run, between=("clean", "probe"), metric="sensitivity")
    assert [cell.name.task for cell in found.cells] == ["films"] and found.cells[0].paired


def check(store: RunStore, job: Job) -> None:
    victim, _ = EncoderClassifier.load(WeightCache(default_cache()).folder(job.needs["victim"]))
    rows = [json.loads(line) for line in Path("data/films-edited/test.jsonl").read_text().splitlines()]

    def right(text: str, label: int) -> bool:
        with torch.no_grad():
            return int(victim(**victim.tokenizer(text, return_tensors="pt")).logits.argmax()) == label

    originals = {row["before"]: right(row["before"], row["was"]) for row in rows}
    after = [(row["before"], right(row["after"], row["is"]), row["was"] != row["is"]) for row in rows]
    bundles = [originals[text] and all(ok for before, ok, _ in after if before == text) for text in originals]
    expected = {
        "ori": sum(originals.values()) / 30,
        "rev": sum(ok for _, ok, _ in after) / 60,
        "con": sum(bundles) / 30,
        "rev_changed": sum(ok for _, ok, changed in after if changed) / 30,
        "rev_kept": sum(ok for _, ok, changed in after if not changed) / 30,
        "con_pairs": sum(ok and originals[before] for before, ok, _ in after) / 60,
    }
    record = record_of(store, job)
    assert {score.name: score.value for score in record.scores} == pytest.approx(expected)
    assert record.counts["bundles"] == record.counts["edits_label_kept"] == 30
    assert record.provenance.weights_hash and record.provenance.dataset_fingerprint
    predictions = store.predictions(job)
    assert len(predictions) == 90 and sum(one.original for one in predictions) == 30
    assert not any(word in json.dumps([one.model_dump() for one in predictions]) for word in ("film", "good")), (
        "no texts"
    )
    said = {one.example_id: one.prediction == one.label for one in predictions}
    assert [said[row["pair_id"]] for row in rows] == [ok for _, ok, _ in after]


def check_sensitivity(store: RunStore, job: Job) -> None:
    victim, _ = EncoderClassifier.load(WeightCache(default_cache()).folder(job.needs["victim"]))
    rows = [json.loads(line) for line in Path("data/films-edited/test.jsonl").read_text().splitlines()]

    def said(text: str) -> int:
        with torch.no_grad():
            return int(victim(**victim.tokenizer(text, return_tensors="pt")).logits.argmax())

    turned = [row for row in rows if row["was"] != row["is"]]
    followed = [said(row["after"]) == row["is"] for row in turned if said(row["before"]) == row["was"]]
    (row,) = store.rows(job)
    assert row.numbers["originals"] == len(turned) == 30
    values = unpack_numbers(row.names["sensitivity"], 30)
    assert values[~np.isnan(values)].tolist() == [float(one) for one in followed]


def test_clusters_widen_the_intervals_and_nothing_else(place: Path) -> None:
    quick = ("seeds=0", "finetune=probe")

    def scored() -> tuple[Record, RunStore, Job]:
        result = api.run("suite.yaml", options(place, overrides=quick))
        job = prepare_suite("suite.yaml", options(place, overrides=quick)).plan.jobs[-1]
        store = RunStore(result.run)
        return record_of(store, job), store, job

    plain, _, before = scored()
    path = place / "data/films-edited/test.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    write_rows(path, [row | {"source": row["before"].split()[-1]} for row in rows])
    write_text(place / "mine/contrast/films-edited.yaml", SET_YAML + "cluster: source\n")
    found, store, job = scored()
    assert job.key != before.key and job.needs == before.needs, "the same victim, evaluated again"
    assert [(s.name, s.value, s.n) for s in found.scores] == [(s.name, s.value, s.n) for s in plain.scores]
    names = {one.cluster for one in store.predictions(job)}
    assert len(names) == found.counts["clusters"] == len({row["before"].split()[-1] for row in rows})
    assert names <= {one.bundle for one in store.predictions(job)}, "ids, no texts"
    assert list(found.scores) == list(contrast_scores(group_into_bundles(store.predictions(job))))
    assert found.scores[0].units != plain.scores[0].units == 30


def test_it_stands_beside_attacks_and_sts_tasks(place: Path) -> None:
    write_text(place / "suite.yaml", SUITE + "attacks: pwws\nnum_examples: 5\n")
    plan = api.plan("suite.yaml", options(place, overrides=("evaluate=[mini-sts, contrast]",))).plan
    assert [job.stage for job in plan.jobs] == ["measure", *["finetune", "measure", "measure", "attack"] * 4]
    assert plan.jobs[0].what == "sts"
    assert [table.metric for table in plan.suite.tables] == ["asr", "sts", "contrast"]
    assert Plan.model_validate_json(plan.model_dump_json()) == plan, "both kinds of evaluation are told apart again"


def test_an_edit_that_is_cut_off_is_counted(place: Path) -> None:
    # Eight tokens: of six words and two special ones, the last edited words are cut.
    long = [{"pair_id": "x", "before": "the film was a good story and dull", "was": 1}]
    write_rows(
        place / "data/films-edited/test.jsonl",
        [{**row, "after": "the film was a good story and fine", "is": 0} for row in long],
    )
    result = api.run("suite.yaml", options(place, overrides=("training.max_length=8", "seeds=0", "finetune=probe")))
    assert not result.failed
    job = prepare_suite(
        "suite.yaml", options(place, overrides=("training.max_length=8", "seeds=0", "finetune=probe"))
    ).plan.jobs[-1]
    counts = record_of(RunStore(result.run), job).counts
    assert (counts["texts_cut"], counts["edits_read_as_original"]) == (2, 1)
    assert "1 edits" in api.table(result.run, metric="contrast", notes="full")


# ------------------------------------------------------------------------------------------------------------ leakage


def test_what_is_in_the_set_is_not_trained_on_and_counted(place: Path) -> None:
    leak = tiny.data(train=64).split("train")[1].texts[0]

    def keys(evaluate: str) -> tuple[str, Plan]:
        plan = prepare_suite("suite.yaml", options(place, overrides=(f"evaluate={evaluate}",))).plan
        return job_of(plan, "finetune/toy/films/clean/seed0").key, plan

    assert keys("[contrast]")[0] == keys("[]")[0], "without a leak, victims are those of any suite"
    write_edits(place, leak=leak)
    key, plan = keys("[contrast]")
    assert key != keys("[]")[0]
    result = api.run("suite.yaml", options(place, only="*toy/films/probe*seed0"))
    assert not result.failed
    store = RunStore(result.run)
    assert record_of(store, job_of(plan, "finetune/toy/films/probe/seed0")).counts["train_rows"] < 64
    counts = record_of(store, job_of(plan, "measure/toy/films/probe/films-edited/seed0")).counts
    assert counts["train_kept_out"] >= 1 and "validation_kept_out" in counts
    assert any("also in films-edited" in note for note in prepare_suite("suite.yaml", options(place)).notes)
    assert f"rows kept out of training for it: {counts['train_kept_out']} of train" in api.table(
        result.run, metric="contrast", notes="full"
    )


# ---------------------------------------------------------------------------------------------------------- job keys


def test_the_key_has_the_content_of_the_set_and_no_place(place: Path) -> None:
    def key() -> str:
        return job_of(
            prepare_suite("suite.yaml", options(place)).plan, "measure/toy/films/clean/films-edited/seed0"
        ).key

    first = key()
    (place / "data").rename(place / "elsewhere")
    (place / "data").symlink_to(place / "elsewhere")
    write_text(place / "mine/contrast/films-edited.yaml", "title: new\nsource: a place\n" + SET_YAML)
    write_text(place / "mine/tasks/films.yaml", "title: new\n" + TASK_YAML)
    assert key() == first
    write_edits(place, n=29)
    assert key() != first


# ---------------------------------------------------------------------------------------------------- what is refused


def test_a_set_that_is_missing_is_told_before_any_work(place: Path) -> None:
    (place / "data/films-edited/test.jsonl").unlink()
    with pytest.raises(ResourceError) as caught:
        api.run("suite.yaml", options(place))
    assert "films-edited/test.jsonl" in str(caught.value)
    assert not Path("results").exists()
