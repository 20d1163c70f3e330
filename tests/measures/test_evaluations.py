"""Tables of evaluations, from a RUN made by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from rbench.errors import StoreError, SuiteError
from rbench.schema import (
    EncoderSpec,
    Job,
    Plan,
    PretrainJob,
    Suite,
)
from rbench.score import sts_scores
from rbench.store.runs import RunStore
from rbench.tables import build
from rbench.tables.formats import render
from rbench.tables.notes import selected_step_notes
from tests.measures.evaluation_runs import COSINES, GOLD, make_plan, make_record


def make_run(folder: Path, leave: tuple[str, str] | None = None, **changes: Any) -> RunStore:
    store = RunStore(folder)
    plan = make_plan(**changes)
    store.write_plan(plan)
    for job in plan.jobs:
        if job.stage == "measure" and job.parts != leave:
            store.write_record(make_record(job, sts_scores(COSINES[job.parts[0], job.parts[1]], GOLD)))
    return store


def spearman(encoder: str, evaluation: str) -> float:
    """1 - 6 sum d^2 / n (n^2 - 1), which holds without ties."""
    cosines = COSINES[encoder, evaluation]
    ranks = [sorted(cosines).index(value) for value in cosines]
    return 1 - 6 * sum((rank - i) ** 2 for i, rank in enumerate(ranks)) / (6 * 35)


def test_encoders_go_down_and_evaluations_across(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "sts")
    assert table.header == ("Encoder", "stsb ‡", "sickr[split=validation]", "Avg. ‡"), "these are not the field's pairs"
    assert [row[0] for row in table.rows] == ["minilm", "bert_b"]
    for encoder, *numbers in table.rows:
        values = [spearman(str(encoder), label) for label in ("stsb", "sickr[split=validation]")]
        assert [number.value for number in numbers] == pytest.approx([*values, mean(values)])  # type: ignore[union-attr]
    first, second = (row[1:] for row in table.rows)
    best = [[number.best for number in row] for row in (first, second)]  # type: ignore[union-attr]
    assert best == [[True, False, True], [False, True, False]]
    for cell in table.cells[:4]:
        assert cell["value"] == pytest.approx(spearman(cell["encoder"], cell["evaluation"]))
        assert cell["low"] < cell["value"] < cell["high"] and cell["n"] == 6
    for cell, (_, *numbers) in zip(table.cells[4:], table.rows, strict=True):
        assert (cell["evaluation"], cell["sets"], cell["n"]) == (None, "stsb sickr[split=validation]", 12)
        assert cell["value"] == numbers[2].value and cell["low"] is None  # type: ignore[union-attr]
    assert any(note.startswith("Some averages have no interval") for note in table.notes), "records of earlier versions"


def test_one_evaluation_has_no_average_and_one_encoder_no_best(tmp_path: Path) -> None:
    table = build(make_run(tmp_path, evaluate=("stsb",), encoders=("minilm",)), "sts")
    assert table.header == ("Encoder", "stsb ‡")
    assert not table.rows[0][1].best  # type: ignore[union-attr]


def test_a_gap_has_no_average_and_its_column_no_best(tmp_path: Path) -> None:
    table = build(make_run(tmp_path, leave=("bert_b", "stsb")), "sts")
    (_, *whole), (_, *hole) = table.rows
    assert hole[0] is hole[2] is None
    assert [number.best for number in whole] == [False, False, False]  # type: ignore[union-attr]
    assert hole[1].best  # type: ignore[union-attr]
    assert "1 of 4 evaluations not done: bert_b/stsb/seed0." in table.notes
    text = render(table, "markdown")
    assert "–: not done." in text


def test_failed_and_undefined_are_told_apart(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    plan = store.plan()
    assert plan is not None
    first, second, *_ = [job for job in plan.jobs if job.stage == "measure"]
    store.write_record(make_record(first, (), "failed"))
    store.write_record(make_record(second, sts_scores([0.5] * 6, GOLD)))
    table = build(store, "sts")
    assert "1 of 4 evaluations failed: minilm/stsb/seed0." in table.notes
    assert table.rows[0][1] is None and table.rows[0][2].value is None  # type: ignore[union-attr]
    assert "n/a: fewer than 4 pairs, or cosines that are all equal." in render(table, "markdown")
    assert "NaN" not in render(table, "json")


def test_the_full_layout_has_every_correlation(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "sts", "full")
    assert table.header == ("Encoder", "Evaluation", "n", "Spearman", "Pearson")
    assert len(table.rows) == len(table.cells) == 4
    for row, cell in zip(table.rows, table.cells, strict=True):
        expected = sts_scores(COSINES[cell["encoder"], cell["evaluation"]], GOLD)
        assert [entry.value for entry in row[3:]] == [score.value for score in expected]  # type: ignore[union-attr]
        assert cell["scores"]["pearson"]["high"] == expected[1].high
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert float(rows[0]["spearman"]) == float(rows[0]["value"]) == table.cells[0]["value"]


def test_correlations_are_multiplied_by_100_for_people_and_not_for_programs(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "sts")
    text = render(table, "markdown")
    assert text.startswith(
        "**Semantic textual similarity, ×100 ↑ (higher is better; bold: the highest of each column)**"
    )
    assert f"**{100 * spearman('minilm', 'stsb'):.2f}**" in text
    assert all(f"| {encoder}" in text for encoder in ("minilm", "bert_b")), "every row has its name"
    assert "[" + f"{100 * table.cells[0]['low']:.2f}, " in render(table, "markdown", intervals=True)
    content = json.loads(render(table, "json"))
    assert content["cells"] == list(table.cells)
    assert content["notes"][-1] == "Correlations are in -1..1."
    latex = render(table, "latex")
    assert latex.count("\\midrule") == 1 and r"$\times$100" in latex and "bert\\_b" in latex


def test_notes_say_what_stands_behind_the_numbers(tmp_path: Path) -> None:
    notes = build(make_run(tmp_path, notes=("A note of the suite.",)), "sts").notes
    for note in (
        "A note of the suite.",
        "n, the pairs of a column: stsb 6; sickr[split=validation] 6.",
        "stsb: Some pairs are of 2012 & later.",
        "Training steps selected by Spearman's correlation on stsb (validation split): bert_b.",
    ):
        assert note in notes


def test_steps_selected_by_a_mean_on_test_pairs_are_said_to_be() -> None:
    trained = {"objective": "simcse", "data": "corpus", "select_by": ["sts12", "stsb"], "select_split": "test"}
    spec = EncoderSpec.model_validate({"name": "x", "base": "org/bert", "train": trained})
    job = Job.make(PretrainJob(encoder=spec, data_fingerprint="d"), ("x",), {}, 0)
    plan = Plan(suite=Suite(name="s", encoders=("x",), evaluate=("stsb",)), jobs=(job,))
    assert selected_step_notes(plan) == [
        "Training steps selected by the mean of Spearman's correlation on sts12, stsb (test split): x."
    ]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    with pytest.raises(StoreError) as caught:
        build(store)
    assert "sts" in str(caught.value)
    with pytest.raises(SuiteError):
        build(store, "st")
    with pytest.raises(StoreError):
        build(store, "sts", layout="papers")
    plan = make_plan()
    store.write_plan(plan.model_copy(update={"jobs": plan.jobs[:1]}))
    with pytest.raises(StoreError):
        build(store, "sts")
