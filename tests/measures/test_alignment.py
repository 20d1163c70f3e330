"""Tests the measure `alignment` against double loops over texts, its table, its figure and what it refuses."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbench.errors import StoreError
from rbench.measures import EncoderContext, MeasuredRow, alignment
from rbench.measures.alignment import Options, compute_uniformity
from rbench.report.figures import alignment as figure
from rbench.schema import Choice, EncoderSpec, Job, MeasureJob, TaskSpec
from rbench.tables.table import Number
from rbench.tasks import Example
from tests.measures.conftest import results

STS = TaskSpec(name="stsb", kind="sts", columns=("a", "b"), metric="spearman", scale=(0, 5))
ROWS = {
    "train": [("p", "q", 5.0), ("q", "r", 4.0), ("s", "p", 3.9)],
    "test": [("t", "u", 4.5), ("nothing", "t", 5.0), ("p", "v", 0.0)],
}


def vector(text: str) -> np.ndarray:
    return np.zeros(3) if text == "nothing" else np.random.default_rng([ord(c) for c in text]).normal(size=3)


def context() -> EncoderContext:
    encoder: Any = SimpleNamespace(encode=lambda texts, backend, progress: np.array([vector(text) for text in texts]))

    def rows(split: str) -> list[Example]:
        return [Example(f"{split}:{i}", row[:2], row[2]) for i, row in enumerate(ROWS[split])]

    return EncoderContext(STS, rows, tuple(ROWS), lambda *at: None, "one", encoder, None)


def test_it_is_a_loop_over_pairs_and_over_distinct_texts() -> None:
    (row,) = alignment.AlignmentUniformity().run(Options(splits=("train", "test")), context())
    of = {text: vector(text) / np.linalg.norm(vector(text)) for text in "pqrstuv"}
    close = [np.sum((of[a] - of[b]) ** 2) for a, b in (("p", "q"), ("q", "r"), ("t", "u"))]
    apart = [math.exp(-2 * np.sum((of[a] - of[b]) ** 2)) for a, b in itertools.permutations(of, 2)]
    found = row.numbers
    assert (found["pairs"], found["texts"], found["without_direction"]) == (3, 7, 1)
    assert found["alignment"] == pytest.approx(np.mean(close))
    assert found["uniformity"] == pytest.approx(math.log(np.mean(apart)))
    pairs = np.array([0, 0, 1, 2, 3, 3, 5])  # the first pair of each text from p to v
    expected = compute_uniformity(np.array([*of.values()]), pairs)
    assert (found["uniformity_low"], found["uniformity_high"]) == pytest.approx((expected.low, expected.high))


def test_splits_and_bound_are_options_and_no_pair_has_no_number() -> None:
    (row,) = alignment.AlignmentUniformity().run(Options(splits=("train",), positive=5), context())
    assert (row.numbers["pairs"], row.numbers["texts"]) == (1, 4) and row.numbers["alignment_low"] is None
    (row,) = alignment.AlignmentUniformity().run(Options(splits=("test",), positive=5), context())
    assert row.numbers["pairs"] == 0, "the one such pair has a text without direction"
    assert row.numbers["alignment"] is None


def test_what_has_no_scores_is_refused() -> None:
    single = TaskSpec(name="mr", kind="single", columns=("text",), labels=("bad", "good"))
    with pytest.raises(ValueError):
        alignment.AlignmentUniformity().splits(Options(), single)
    with pytest.raises(ValueError):
        alignment.AlignmentUniformity().splits(Options(positive=6), STS)


def stored(encoder: str, low: float | None, high: float | None, zero: int = 0) -> tuple[Job, list[MeasuredRow]]:
    spec = MeasureJob(
        what=Choice(name="alignment", options=Options().model_dump(mode="json")),
        task=STS,
        of="encoders",
        data_fingerprint="d",
        encoder=EncoderSpec(name=encoder, base="b"),
        encoder_fingerprint="f",
    )
    numbers: dict[str, float | None] = {"pairs": 40, "texts": 90, "without_direction": zero}
    for name, value in (("alignment", low), ("uniformity", high)):
        ends = (None, None) if value is None else (value - 0.1, value + 0.1)
        numbers |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return Job.make(spec, (encoder, "alignment", "stsb"), {}, 0), [MeasuredRow(names={}, numbers=numbers)]


def run(*jobs: tuple[Job, list[MeasuredRow]]) -> Any:
    return results([*jobs], tasks=(), evaluate=(Choice(name="alignment"),), measured=("alignment",))


def test_the_table_and_the_figure_show_the_same() -> None:
    found = run(stored("one", 0.3, -2.0, zero=4), stored("two", 0.2, -1.5))
    made = alignment.AlignmentUniformity().table(Options(), found)
    one, two = made.rows
    assert one[:3] == ("stsb", "one", 40) and isinstance(one[3], Number) and one[4] == 90
    assert not one[3].best and isinstance(two[3], Number) and two[3].best, "low is good"
    assert made.cells[0]["alignment"] == 0.3 and made.cells[0]["uniformity_high"] == pytest.approx(-1.9)
    assert any("one: 4 texts of stsb have the vector 0" in note for note in made.notes)
    (axes,) = figure.AlignmentFigure().draw(figure.Options(), found).axes
    drawn = [container[0].get_xydata().tolist() for container in axes.containers]
    assert drawn == [[[-2.0, 0.3]], [[-1.5, 0.2]]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Uniformity", "Alignment")
    (axes,) = figure.AlignmentFigure().draw(figure.Options(encoders=("two",)), found).axes
    assert [container.get_label() for container in axes.containers] == ["two"]


def test_an_encoder_without_one_of_the_numbers_is_not_drawn() -> None:
    with pytest.raises(StoreError):
        figure.AlignmentFigure().draw(figure.Options(), run(stored("one", None, -2.0)))
