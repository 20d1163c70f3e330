"""Tables of contrast sets in which learning rates were picked, from a RUN made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rbench.errors import StoreError
from rbench.schema import (
    ContrastSpec,
    EncoderSpec,
    FinetuneJob,
    Job,
    Plan,
    Provenance,
    Record,
    Score,
    Suite,
    TaskSpec,
    Training,
)
from rbench.score.contrast import BundleResult, contrast_scores
from rbench.store.runs import RunStore
from rbench.tables import build
from rbench.tables.formats import render
from tests.specs import of_set

TASK = TaskSpec(name="mr", kind="single", columns=("text",), labels=("a", "b"), contrast="mr_c")
COLUMNS = {"text": "t", "label": "l"}
SET = ContrastSpec(name="mr_c", task="mr", local="x/y", original=COLUMNS, perturbed=COLUMNS)
RATES = (1e-5, 3e-5)
# Accuracy on validation, and how many of ten edits are right, by (encoder, strategy, learning rate).
FOUND = {
    ("minilm", "clean", 1e-5): (0.9, 4),
    ("minilm", "clean", 3e-5): (0.8, 6),
    ("minilm", "freelb", 1e-5): (0.7, 5),
    ("minilm", "freelb", 3e-5): (0.7, 5),
    ("bert", "clean", 1e-5): (0.6, 2),
    ("bert", "clean", 3e-5): (0.7, 3),
    ("bert", "freelb", 1e-5): (0.8, 1),
    ("bert", "freelb", 3e-5): (0.9, 0),
}


def make_plan(strategies: Any = None) -> Plan:
    finetune = strategies or [{name: {"learning_rate": rate}} for name in ("clean", "freelb") for rate in RATES]
    given = {"name": "s", "encoders": ("minilm", "bert"), "tasks": ("mr",), "evaluate": ("contrast",), "seeds": (0, 1)}
    suite = Suite.model_validate({**given, "finetune": finetune})
    jobs = []
    for seed in suite.seeds:
        for encoder in suite.encoders:
            for strategy in suite.finetune:
                spec = FinetuneJob(
                    encoder=EncoderSpec(name=encoder, base="org/x"),
                    strategy=strategy.choice,
                    task=TASK,
                    data_fingerprint="d",
                    training=Training(),
                )
                victim = Job.make(spec, (encoder, "mr", strategy.label), {}, seed)
                evaluation = of_set(encoder, strategy.choice, TASK, SET, data_fingerprint="c")
                parts = (encoder, "mr", strategy.label, "mr_c")
                jobs += [victim, Job.make(evaluation, parts, {"victim": victim.key}, seed)]
    return Plan(suite=suite, jobs=tuple(jobs))


def make_run(
    folder: Path, leave: Mapping[Any, Any] | None = None, stage: str = "measure", strategies: Any = None
) -> RunStore:
    """Everything done but the jobs of a stage that `leave` has: seeds by (encoder, strategy, learning rate)."""
    store, plan = RunStore(folder), make_plan(strategies)
    store.write_plan(plan)
    for job in plan.jobs:
        strategy = job.measuring.strategies[0] if job.measuring else job.spec.strategy  # type: ignore[union-attr]
        cell = (job.parts[0], strategy.name, strategy.options["learning_rate"])
        accuracy, right = FOUND[cell]
        if job.stage != stage or job.seed not in (leave or {}).get(cell, ()):
            scores = (Score(name="validation_accuracy", value=accuracy + (0.05 if job.seed else -0.05), n=10),)
            if job.what == "contrast":
                scores = contrast_scores([BundleResult(True, ((i < right, True),)) for i in range(10)])
            store.write_record(Record(job=job, status="complete", scores=scores, provenance=Provenance(rbench="0")))
    return store


def shown(table: Any) -> dict[tuple[str, str], float]:
    return {row[:2]: row[3].value for row in table.rows}


def test_by_validation(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "contrast", pick="validation")
    assert table.header[:4] == ("Encoder", "Fine-tuning", "mr Ori", "mr Rev")
    assert shown(table) == {
        ("minilm", "clean"): 0.4,
        ("minilm", "freelb"): 0.5,
        ("bert", "clean"): 0.3,
        ("bert", "freelb"): 0.0,
    }
    assert (
        "Learning rate picked among 1e-05, 3e-05, by accuracy on the validation split: minilm clean mr 1e-05; minilm "
        "freelb mr 1e-05; bert clean mr 3e-05; bert freelb mr 3e-05." in table.notes
    )
    assert {cell["finetune"] for cell in table.cells} == {"clean", "freelb"}


def test_by_the_contrast_set_as_in_the_paper(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "contrast", pick="contrast")
    assert shown(table)["minilm", "clean"] == 0.6 and shown(table)["bert", "freelb"] == 0.1
    text = render(table, "markdown")
    assert "by Rev on the contrast set itself, as in the CLINE paper: what is shown was looked at to choose it" in text


def test_one_strategy_is_not_named(tmp_path: Path) -> None:
    found = build(make_run(tmp_path, strategies=[{"clean": {"learning_rate": rate}} for rate in RATES]), "contrast")
    assert found.header[:2] == ("Encoder", "Fine-tuning"), "the two rates"
    notes = build(RunStore(tmp_path), "contrast", pick="validation").notes
    assert any(note.endswith("split: minilm mr 1e-05; bert mr 3e-05.") for note in notes)


def test_learning_rates_are_compared_on_the_seeds_that_all_have(tmp_path: Path) -> None:
    """Validation is better with seed 1 by 0.1, whatever the rate: over its seeds that are there, 3e-5 would win."""
    store = make_run(tmp_path, {("minilm", "freelb", 3e-5): (0,)})
    table = build(store, "contrast", pick="validation")
    (note,) = (note for note in table.notes if note.startswith("Learning rate picked"))
    assert "minilm clean mr 1e-05; minilm freelb mr 1e-05 so far; bert clean" in note
    partial = {row[:2]: row[3].partial for row in table.rows}
    assert partial == {victim: victim == ("minilm", "freelb") for victim in partial}, "though both its seeds are there"


def test_nothing_is_bold_beside_a_number_that_may_change(tmp_path: Path) -> None:
    whole = build(make_run(tmp_path / "whole"), "contrast", pick="validation")
    assert any(row[3].best for row in whole.rows)
    store = make_run(tmp_path / "part", {("minilm", "freelb", 3e-5): (0,)})
    part = build(store, "contrast", pick="validation")
    assert shown(part) == shown(whole)
    assert not any(entry.best for row in part.rows for entry in row[2:])


def test_without_a_seed_in_common_the_first_is_shown_and_marked(tmp_path: Path) -> None:
    store = make_run(tmp_path, {("minilm", "clean", 1e-5): (0,), ("minilm", "clean", 3e-5): (1,)})
    table = build(store, "contrast", pick="contrast")
    entry = next(row[3] for row in table.rows if row[:2] == ("minilm", "clean"))
    assert entry.value == 0.4 and entry.partial, "3e-5 has more right, but of another seed"


def test_what_is_not_done_is_not_picked(tmp_path: Path) -> None:
    table = build(make_run(tmp_path, {("minilm", "clean", 1e-5): (0, 1)}), "contrast", pick="validation")
    assert shown(table)["minilm", "clean"] == 0.6
    assert any("not done: minilm/mr/clean[learning_rate=1e-05]/mr_c/seed0" in note for note in table.notes)
    (tmp_path / "other").mkdir()
    store = make_run(tmp_path / "other", {("minilm", "clean", 1e-5): (0, 1)}, "finetune")
    table = build(store, "contrast", pick="validation")
    assert shown(table)["minilm", "clean"] == 0.6
    assert (
        "Left out, for no record says how their victims validate: minilm/mr/clean[learning_rate=1e-05]/mr_c/seed0, "
        "minilm/mr/clean[learning_rate=1e-05]/mr_c/seed1." in table.notes
    )
    build(store, "contrast", pick="contrast")


def test_what_cannot_be_picked_is_refused(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    with pytest.raises(StoreError):
        build(store, "contrast", pick="test")  # type: ignore[arg-type]
    for metric, layout in (("asr", "paper"), ("contrast", "full")):
        with pytest.raises(StoreError):
            build(store, metric, layout, "validation")  # type: ignore[arg-type]
    plan = make_plan(["clean", {"clean": {"learning_rate": 1e-5}}])
    store.write_plan(plan)
    with pytest.raises(StoreError):
        build(store, "contrast", pick="validation")
