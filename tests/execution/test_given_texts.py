"""Texts and labels that a call gives: read as examples of a task, or refused with the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbench.errors import PlanError
from rbench.execution.given import read

NAMES = ("negative", "positive")


def test_strings_have_one_column() -> None:
    given = read(["a", "b"], [np.int64(1), 0.0], None)
    assert given.columns == ("text",) and given.rows == (("a",), ("b",)) and given.labels == (1, 0)
    assert given.task(NAMES).kind == "single"
    assert [example.label for example in given.examples(NAMES)] == [1, 0]
    assert [example.id for example in given.examples(NAMES)] == ["0", "1"]


def test_pairs_have_two() -> None:
    assert read([("a", "b")], [0], None).columns == ("text_1", "text_2")
    assert read([("a", "b")], [0], None).task(NAMES).kind == "pair"
    nli = read([{"premise": "a", "hypothesis": "b"}, {"hypothesis": "d", "premise": "c"}], [0, 1], None)
    assert nli.rows == (("a", "b"), ("c", "d")) and nli.task(NAMES).kind == "nli"
    assert read([("a", "b")], [0], ["premise", "hypothesis"]).task(NAMES).kind == "nli"


def test_labels_are_names_in_any_case() -> None:
    assert [example.label for example in read(["a", "b"], ["Positive", "NEGATIVE"], None).examples(NAMES)] == [1, 0]


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        ("a film", [1], "single text"),
        (["a"], 1, "a label for each text"),
        ([], [], "no texts"),
        (["a", "b"], [1], "2 texts and 1 labels"),
        (["a", None], [0, 1], r"texts\[1\].*NoneType"),
        ([("a", "b"), ("c",)], [0, 1], r"texts\[1\] has 1 texts"),
        ([{"a": "x"}, {"b": "y"}], [0, 1], r"texts\[1\] has the columns b, not a"),
        (["a"], [0.5], r"labels\[0\].*0.5"),
        (["a"], [None], r"labels\[0\].*None"),
    ],
)
def test_what_cannot_be_read_is_refused(texts: Any, labels: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read(texts, labels, None)


@pytest.mark.parametrize(("label", "said"), [(2, "0 to 1"), (-1, "0 to 1"), ("positiv", "positive.*label_names")])
def test_labels_that_the_victim_does_not_have_are_refused(label: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read(["a"], [label], None).examples(NAMES)
