"""Texts and labels that a call gives: read as examples of a task, or refused with the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbench.errors import PlanError
from rbench.execution.given import read_texts

NAMES = ("negative", "positive")


def test_strings_have_one_column() -> None:
    given = read_texts(["a", "b"], [np.int64(1), 0.0], None)
    assert given.columns == ("text",) and given.rows == (("a",), ("b",)) and given.labels == (1, 0)
    assert given.task(NAMES).kind == "single"
    assert [example.label for example in given.examples(NAMES)] == [1, 0]
    assert [example.id for example in given.examples(NAMES)] == ["0", "1"]


def test_pairs_have_two() -> None:
    assert read_texts([("a", "b")], [0], None).columns == ("text_1", "text_2")
    assert read_texts([("a", "b")], [0], None).task(NAMES).kind == "pair"
    nli = read_texts([{"premise": "a", "hypothesis": "b"}, {"hypothesis": "d", "premise": "c"}], [0, 1], None)
    assert nli.rows == (("a", "b"), ("c", "d")) and nli.task(NAMES).kind == "nli"
    assert read_texts([("a", "b")], [0], ["premise", "hypothesis"]).task(NAMES).kind == "nli"


def test_labels_are_names_in_any_case() -> None:
    assert [example.label for example in read_texts(["a", "b"], ["Positive", "NEGATIVE"], None).examples(NAMES)] == [
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        ([], [], "0 texts"),
        (["a", "b"], [1], "2 texts"),
        (["a", None], [0, 1], "texts[1]"),
        ([("a", "b"), ("c",)], [0, 1], "texts[1]"),
        ([{"a": "x"}, {"b": "y"}], [0, 1], "texts[1]"),
        (["a"], [None], "labels[0]"),
        (["a", "b"], [1, 2], "labels[1]"),
        (["a"], [-1], "labels[0]"),
        (["a"], ["positiv"], "positive"),
    ],
)
def test_what_cannot_be_read_is_refused(texts: Any, labels: Any, named: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_texts(texts, labels, None).examples(NAMES)
    assert named in str(caught.value)
