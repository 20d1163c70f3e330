"""Tables of contrast sets, from a RUN made by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from statsmodels.stats.proportion import proportion_confint

from rbench.errors import StoreError
from rbench.score.contrast import contrast_scores
from rbench.tables import build
from rbench.tables.formats import render
from rbench.tables.table import Number
from tests.measures.contrast_runs import N, make_bundles, make_plan, make_record, make_run


def shares(encoder: str, strategy: str, name: str, of: str) -> list[float]:
    """A share by seed, counted bundle by bundle."""
    found = []
    for job in make_plan().jobs:
        if (job.parts[0], job.parts[2], job.parts[3]) == (encoder, strategy, name):
            made = make_bundles(job)
            count = {
                "Ori": [bundle.original for bundle in made],
                "Rev": [right for bundle in made for right, _ in bundle.edits],
                "Con": [bundle.original and all(right for right, _ in bundle.edits) for bundle in made],
            }[of]
            found.append(sum(count) / len(count))
    return found


def numbers(row: tuple[Any, ...]) -> list[Number]:
    assert all(isinstance(entry, Number) for entry in row)
    return list(row)


def test_victims_go_down_and_three_columns_a_set_across(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "contrast")
    columns = [f"{task} {of}" for task in ("mr", "qa") for of in ("Ori", "Rev", "Con")]
    assert table.header == ("Encoder", "Fine-tuning", *columns)
    assert [row[:2] for row in table.rows] == [
        (encoder, strategy) for encoder in ("minilm", "bert_b") for strategy in ("clean", "probe")
    ]
    for encoder, strategy, *entries in table.rows:
        for column, entry in zip(columns, numbers(tuple(entries)), strict=True):
            task, of = column.split()
            values = shares(str(encoder), str(strategy), f"{task}_c", of)
            assert entry.value == pytest.approx(mean(values))
            assert entry.seed_sd == pytest.approx(stdev(values))
            assert entry.n == (N * 3 if (task, of) == ("qa", "Rev") else N)
            low, high = proportion_confint(mean(values) * N, N, method="wilson")
            assert (entry.low, entry.high) == pytest.approx((low, high)), (
                "seeds see the same bundles, and edits are alike"
            )
    assert [[entry.best for entry in numbers(row[2:])] for row in table.rows] == [[False] * 6] * 3 + [[True] * 6]
    assert table.groups == {2}


def test_one_strategy_needs_no_column_and_two_sets_of_a_task_have_their_names(tmp_path: Path) -> None:
    table = build(make_run(tmp_path, sets=("mr_c", "mr_d"), finetune=("clean",)), "contrast")
    assert table.header == ("Encoder", *(f"{name} {of}" for name in ("mr_c", "mr_d") for of in ("Ori", "Rev", "Con")))
    assert table.groups == frozenset()


def test_a_cell_with_seeds_missing_is_marked_and_a_gap_has_no_best(tmp_path: Path) -> None:
    store = make_run(tmp_path, leave=("minilm", "mr", "clean", "mr_c", 1))
    table = build(store, "contrast")
    assert [entry.partial for entry in numbers(table.rows[0][2:])] == [True] * 3 + [False] * 3
    assert "1 of 16 evaluations on contrast sets not done: minilm/mr/clean/mr_c/seed1." in table.notes
    (job,) = [job for job in make_plan().jobs if (*job.parts, job.seed) == ("minilm", "mr", "clean", "mr_c", 0)]
    store.write_record(make_record(job, status="failed", scores=()))
    table = build(store, "contrast")
    assert table.rows[0][2:5] == (None, None, None)
    assert not any(entry.best for row in table.rows[1:] for entry in numbers(row[2:5]))
    assert "evaluations on contrast sets failed: minilm/mr/clean/mr_c/seed0." in " ".join(table.notes)
    assert "–: not done." in render(table, "markdown")


def test_the_full_layout_has_every_score_of_every_seed(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "contrast", "full")
    assert table.header[:6] == ("Encoder", "Fine-tuning", "Contrast set", "Seed", "Bundles", "Edits")
    assert len(table.rows) == len(table.cells) == 16
    for row, cell in zip(table.rows, table.cells, strict=True):
        (job,) = [
            job
            for job in make_plan().jobs
            if (job.parts[0], job.parts[2], job.parts[3], job.seed) == (row[0], row[1], row[2], row[3])
        ]
        expected = {score.name: score for score in contrast_scores(make_bundles(job))}
        assert [entry.value for entry in numbers(row[6:])] == [
            expected[name].value for name in ("ori", "rev", "con", "con_pairs", "rev_changed", "rev_kept")
        ]
        assert cell["seed"] == job.seed and cell["value"] == expected["con"].value
        assert cell["scores"]["rev"]["high"] == expected["rev"].high
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert float(rows[0]["con"]) == float(rows[0]["value"]) and float(rows[0]["rev_n"]) == N
    assert render(table, "markdown").startswith("**Every evaluation on a contrast set; shares in %**")


def test_notes_say_what_a_bundle_is_and_what_was_left_out(tmp_path: Path) -> None:
    notes = build(make_run(tmp_path, notes=("A note of the suite.",)), "contrast").notes
    for note in (
        "A note of the suite.",
        "mr (mr_c): 20 bundles, 20 edits; 10 edits keep the label; 3 rows left out, label outside the map; rows kept "
        "out of training for it: 4 of train.",
        "mr (mr_c): 0 to 1 texts longer than the victim reads, 0 edits that it reads as their original.",
        "mr (mr_c): A bundle is & one edit.",
        "Seeds 1, 0.",
    ):
        assert note in notes


def test_edits_that_change_nothing_or_repeat_one_are_told_where_there_are_any(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    for job in make_plan().jobs:
        own = {"edits_same_text": 2, "edits_repeated": 0, "clusters": 7} if job.parts[3] == "mr_c" else {}
        store.write_record(
            make_record(job, counts=make_record(job).counts | {"edits_same_text": 0, "edits_repeated": 3} | own)
        )
    notes = " ".join(build(store, "contrast").notes)
    assert (
        "mr (mr_c): 20 bundles of 7 clusters, 20 edits; 10 edits keep the label; 2 edits have their original's text; 3"
        in notes
    )
    assert (
        "qa (qa_c): 20 bundles, 20 edits; 10 edits keep the label; 3 edits repeat another of their bundle; 3" in notes
    )


def test_people_see_percent_and_programs_fractions(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "contrast")
    text = render(table, "markdown", intervals=True)
    assert text.startswith("**Contrast sets, % ↑ (higher is better; bold: the highest of each column)**")
    value = mean(shares("bert_b", "probe", "mr_c", "Con"))
    assert f"**{100 * value:.1f} [" in text and "All seeds see the same bundles" in text
    content = json.loads(render(table, "json"))
    assert content["cells"] == list(table.cells) and content["notes"][-1] == "Shares are fractions of 1."
    assert r"mr\_\allowbreak{}c" in render(table, "latex")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    with pytest.raises(StoreError) as caught:
        build(store)
    assert "contrast" in str(caught.value)
    plan = make_plan()
    store.write_plan(plan.model_copy(update={"jobs": ()}))
    with pytest.raises(StoreError):
        build(store, "contrast")
    damaged = make_record(plan.jobs[0])
    store.write_plan(plan)
    store.write_record(damaged.model_copy(update={"scores": damaged.scores[1:]}))
    table = build(store, "contrast")
    assert any(note.startswith("1 of ") and " damaged: " in note for note in table.notes)
