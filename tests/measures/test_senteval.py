"""Tests transfer tasks on an encoder that gives made-up vectors, and their table on rows made by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from rbench.errors import JobError
from rbench.measures import EncoderContext, senteval
from rbench.measures.senteval import Options
from rbench.schema import TaskSpec
from rbench.score import wilson
from rbench.score.packed import unpack_hits
from rbench.tables.table import Number
from rbench.tasks import Example
from tests.measures.conftest import results
from tests.measures.senteval_results import SINGLE_TASK, make_result, suite_fields

MEASURE = senteval.SentEvalAccuracy()
PAIRS = TaskSpec(name="mrpc", kind="paraphrase", columns=("sentence1", "sentence2"), labels=("no", "yes"))


def vector(text: str) -> np.ndarray:
    rng = np.random.default_rng([ord(letter) for letter in text])
    return rng.normal(size=3) + (1.0 if "good" in text else -1.0) * np.array([0.6, 0.4, 0.0])


def context(task: TaskSpec, sizes: dict[str, int], encode: Callable[[Any], Any] | None = None) -> EncoderContext:
    """An encoder of made-up vectors, and rows of which each text stands in two."""
    asked: list[list[str]] = []

    def encoded(texts: list[str], backend: str, progress: Callable[[int], object]) -> Any:
        asked.append(list(texts))
        progress(len(texts))
        return np.array([(encode or vector)(text) for text in texts], dtype=np.float32)

    def rows(split: str) -> list[Example]:
        words = ["good", "bad"]
        return [
            Example(
                f"{split}:{i}",
                tuple(f"{words[(i + c * (i % 3 > 0)) % 2]} {split} {i // 4}" for c in range(len(task.columns))),
                i % 2,
            )
            for i in range(sizes[split])
        ]

    made = SimpleNamespace(encode=encoded, asked=asked)
    return EncoderContext(task, rows, tuple(sizes), lambda *at: None, "one", made, None)  # type: ignore[arg-type]


def test_a_pair_has_the_features_of_senteval_and_mrpc_has_f1() -> None:
    of = context(PAIRS, {"train": 40, "validation": 20, "test": 30})
    (row,) = MEASURE.run(Options(tasks=("mrpc",), folds=4), of)
    features, labels = {}, {}
    for split in ("train", "validation", "test"):
        first, second = (np.array([vector(e.texts[c]) for e in of.rows(split)], np.float32) for c in (0, 1))
        features[split] = np.hstack([np.abs(first.astype(float) - second), first.astype(float) * second])
        labels[split] = np.array([e.label for e in of.rows(split)])
    known = np.vstack([features["train"], features["validation"]])
    classes = np.concatenate([labels["train"], labels["validation"]])
    scores = []
    for c in (grid := [0.5, 1, 2, 4, 8, 16, 32]):
        folds = StratifiedKFold(4, shuffle=True, random_state=1111).split(known, classes)
        fits = [(LogisticRegression(C=c, tol=1e-9, max_iter=9999).fit(known[a], classes[a]), b) for a, b in folds]
        scores.append(round(100 * np.mean([one.score(known[b], classes[b]) for one, b in fits]), 2))
    best = grid[int(np.argmax(scores))]
    predicted = LogisticRegression(C=best, tol=1e-9, max_iter=9999).fit(known, classes).predict(features["test"])
    assert row.names["protocol"] == "folds" and row.numbers["least_c"] == row.numbers["most_c"] == best
    assert row.numbers["accuracy"] == pytest.approx((predicted == labels["test"]).mean(), abs=1e-6)
    assert row.numbers["f1"] == pytest.approx(f1_score(labels["test"], predicted))
    assert unpack_hits(row.names["hits"], 30).tolist() == (predicted == labels["test"]).tolist()


def test_each_distinct_text_is_encoded_once_and_all_splits_are_cross_validated() -> None:
    of = context(SINGLE_TASK, {"train": 60, "test": 40})
    (row,) = MEASURE.run(Options(tasks=("mr",), folds=3), of)
    (texts,) = of.encoder.asked  # type: ignore[attr-defined]
    assert len(texts) == len({*texts}) == 50 and row.numbers["n"] == 100 and row.names["protocol"] == "nested"
    assert row.numbers["f1"] is None and row.numbers["correct"] == sum(unpack_hits(row.names["hits"], 100))


def test_three_splits_are_for_tasks_that_senteval_lacks_and_most_rows_are_of_a_split() -> None:
    own = SINGLE_TASK.model_copy(update={"name": "tickets"})
    of = context(own, {"train": 60, "validation": 50, "test": 40})
    (row,) = MEASURE.run(Options(tasks=("tickets",), max_rows=30), of)
    assert row.names["protocol"] == "split" and row.numbers["n"] == 30
    (texts,) = of.encoder.asked  # type: ignore[attr-defined]
    assert len(texts) < 90, "rows that are not drawn are not encoded"


def test_most_rows_are_drawn_from_all_and_stay_in_their_order() -> None:
    rows = [Example(f"train:{i}", (f"text {i}",), i % 2) for i in range(50)]
    drawn = senteval._draw_rows(rows, 20)
    assert len(drawn) == 20 and [rows.index(one) for one in drawn] == sorted(rows.index(one) for one in drawn)
    assert rows.index(drawn[-1]) > 30, "files may be sorted by label"
    assert (
        drawn == senteval._draw_rows(rows, 20)
        and senteval._draw_rows(rows, 50) == senteval._draw_rows(rows, None) == rows
    )


def test_vectors_that_are_not_finite_are_refused() -> None:
    of = context(SINGLE_TASK, {"train": 60}, lambda text: np.full(3, np.nan) if "3" in text else vector(text))
    with pytest.raises(JobError):
        MEASURE.run(Options(tasks=("mr",)), of)


def test_what_cannot_be_classified_is_refused_before_anything_runs() -> None:
    scored = TaskSpec(name="stsb", kind="sts", columns=("a", "b"), metric="spearman")
    with pytest.raises(ValueError):
        MEASURE.splits(Options(), scored)
    assert MEASURE.splits(Options(), SINGLE_TASK) == () and MEASURE.splits(Options(), PAIRS) == (
        "train",
        "test",
    )
    asked = MEASURE.tasks(Options(tasks=("mr", "trec", "mine"), folds=5, protocols={"mine": "nested"}))
    assert {task: (one.tasks, one.protocols[task], one.folds) for task, one in asked.items()} == {
        "mr": (("mr",), "nested", 5), "trec": (("trec",), "folds", 5), "mine": (("mine",), "nested", 5),
    }  # fmt: skip


def test_the_table_has_intervals_and_names_the_tasks_that_are_missing() -> None:
    jobs = [make_result(e, t, a) for e, a in (("two", 0.9), ("one", 0.8)) for t in ("mrpc", "mr")]
    made = MEASURE.table(Options(), results(jobs, **suite_fields()))
    assert made.header == ("Encoder", "mr", "mrpc", "Avg. of 2", "mrpc F1")
    assert [row[0] for row in made.rows] == ["one", "two"], "in the suite's order"
    mr, mean, f1 = made.rows[1][1], made.rows[1][3], made.rows[1][4]
    assert isinstance(mr, Number) and (mr.low, mr.high) == wilson(90, 100) and mr.best and mr.value == 0.9
    assert isinstance(mean, Number) and mean.low is not None and mr.low is not None
    assert mean.value == pytest.approx(0.9) and mean.low == pytest.approx(0.9 - (0.9 - mr.low) / 2**0.5)
    assert isinstance(f1, Number) and f1.value == 0.5
    assert any("Not here: cr, subj, mpqa, sst2, trec" in note for note in made.notes)
    (cell,) = [one for one in made.cells if one["encoder"] == "one" and one.get("task") == "mr"]
    assert (cell["value"], cell["n"]) == (0.8, 100)
    assert [one["value"] for one in made.cells if "average_of" in one] == [pytest.approx(0.8), pytest.approx(0.9)]


def test_an_average_over_what_papers_average_has_no_mark_and_one_that_misses_a_task_is_not_there() -> None:
    rows = [make_result("one", t, 0.8, n) for t, n in senteval.PUBLISHED_ROWS.items() if t != "trec"]
    made = MEASURE.table(Options(), results(rows, **suite_fields()))
    assert "Avg." in made.header and not any("Not here" in note or "‡" in note for note in made.notes)
    made = MEASURE.table(
        Options(), results([*rows, make_result("two", "mr", 0.9, senteval.PUBLISHED_ROWS["mr"])], **suite_fields())
    )
    assert made.rows[1][made.header.index("Avg.")] is None


def test_an_average_over_other_rows_than_the_papers_is_marked_and_a_note_counts_them() -> None:
    counts = {**senteval.PUBLISHED_ROWS, "mpqa": 10_859, "cr": 3_771}
    made = MEASURE.table(
        Options(), results([make_result("one", t, 0.8, n) for t, n in counts.items()], **suite_fields())
    )
    assert "Avg. ‡" in made.header
    (note,) = (note for note in made.notes if note.startswith("Avg. ‡: "))
    assert note.endswith("cr has 3,771 rows for 3,775, mpqa has 10,859 rows for 10,606.")


def test_options_of_the_table_choose_jobs_and_tasks() -> None:
    jobs = [make_result("one", "mr", 0.8), make_result("one", "cr", 0.7), make_result("two", "mr", 0.6, folds=5)]
    made = MEASURE.table(Options(tasks=("mr",), folds=5), results(jobs, **suite_fields()))
    assert made.header == ("Encoder", "mr") and [row[0] for row in made.rows] == ["two"]


def test_classifiers_that_exist_are_named_as_not_measured() -> None:
    made = MEASURE.table(Options(), results([make_result("one", "mr", 0.8)], **suite_fields(victims=("mine",))))
    assert "Classifiers that exist have no frozen vectors and are not measured: mine." in made.notes
