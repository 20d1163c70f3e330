"""Tests tables of hard positives: the marked words in every format, from the store alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.measures.positives import mark_differences
from rbench.schema import Choice, Job, Outcome, Plan, Provenance, Record, Score
from rbench.store.runs import RunStore
from rbench.tables import build
from rbench.tables.formats import render
from tests.specs import of_training
from tests.tables.conftest import TASKS, make_suite

TEXTS = {
    "train:1": (("the film is *good* & fun .",), ("the movie is *fine* & fun .",)),
    "train:2": (("nothing here",), ("nothing here",)),
}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = RunStore(tmp_path / "run")
    what = Choice(name="positives", options={"split": "train", "num_examples": 2})
    spec = of_training("adcl-x", what, TASKS["mr"])
    job = Job.make(spec, ("adcl-x", "mr", "positives"), {}, 0)
    store.write_plan(Plan(suite=make_suite(attacks=(), build=("positives",), notes=("said below",)), jobs=(job,)))
    outcomes = [
        Outcome(example_id=name, status="succeeded", original=old, perturbed=new, label=0, num_words=6)
        for name, (old, new) in TEXTS.items()
    ]
    store.write_outcomes(job, outcomes)
    scores = (Score(name="loss_raised", value=0.25, n=2), Score(name="words_replaced", value=1 / 3, n=2))
    store.write_record(
        Record(job=job, status="complete", scores=scores, counts={"texts": 2}, provenance=Provenance(rbench="0"))
    )
    return store


def test_words_that_changed_are_marked_and_the_texts_stay_whole() -> None:
    old, new = mark_differences("the film is good .", "the movie is  good .")
    assert (old.text, new.text) == ("the film is good .", "the movie is  good .")
    assert [piece for piece, marked in old.pieces if marked] == ["film"]
    assert [piece for piece, marked in new.pieces if marked] == ["movie"]


def test_a_text_stands_above_what_was_made_of_it(store: RunStore) -> None:
    table = build(store, "positives")
    assert [row[2] for row in table.rows] == ["original", "hard positive"] * 2
    markdown = render(table, "markdown")
    assert r"the **movie** is **\*fine\*** & fun ." in markdown and r"the **film** is **\*good\*** & fun ." in markdown
    assert "| nothing here" in markdown and "said below" in markdown
    latex = render(table, "latex")
    assert r"\textcolor{red}{\textbf{film}}" in latex and r"\textcolor{blue}{\textbf{movie}}" in latex
    assert r"\usepackage{xcolor}" in latex and "p{0.6" in latex
    cells = json.loads(render(table, "json"))["cells"]
    assert [cell["hard_positive"] for cell in cells] == [new for _, (new,) in TEXTS.values()]
    assert "the movie is *fine* & fun ." in render(table, "csv")


def test_the_full_layout_says_how_much_changed(store: RunStore) -> None:
    table = build(store, "positives", "full")
    assert "0.250" in render(table, "markdown") and "33.3" in render(table, "markdown")
    assert table.cells == (
        {"encoder": "adcl-x", "task": "mr", "seed": 0, "loss_raised": 0.25, "words_replaced": 1 / 3, "flags": []},
    )


def test_a_run_without_them_says_so(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run")
    store.write_plan(Plan(suite=make_suite(), jobs=()))
    for layout in ("paper", "full"):
        with pytest.raises(StoreError):
            build(store, "positives", layout)
