"""Contrast sets of the embedded world: one word edited, another label by the oracle."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Any

import pytest

from rbench import mini
from rbench.errors import ResourceError
from rbench.mini.contrast import WITH_CONTRAST_SET
from tests.refusals import refusal

COLUMNS = {"mini-sentiment": ("text",), "mini-nli": ("premise", "hypothesis")}


def side(row: dict[str, Any], which: str, name: str) -> tuple[str, ...]:
    return tuple(row[f"{which}_{column}"] for column in COLUMNS[name])


def words(texts: tuple[str, ...]) -> list[str]:
    """Words in lower case; `a` and `an` are one word of the language."""
    found = [word.lower() for text in texts for word in re.findall(r"[\w'’-]+", text)]
    return ["a" if word == "an" else word for word in found]


@pytest.mark.parametrize("name", WITH_CONTRAST_SET)
def test_the_oracle_gives_every_text_its_label_and_edits_another(name: str) -> None:
    for row in mini.contrast_rows(name)[::3]:  # a mistake is made in many
        assert mini.oracle(name, side(row, "original", name)) == row["original_label"], row
        assert mini.oracle(name, side(row, "perturbed", name)) == row["perturbed_label"] != row["original_label"], row


@pytest.mark.parametrize("name", WITH_CONTRAST_SET)
def test_an_edit_changes_one_word_of_one_text(name: str) -> None:
    for row in mini.contrast_rows(name):
        before, after = side(row, "original", name), side(row, "perturbed", name)
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1, row
        changes = [
            (old, new)
            for tag, i, j, k, n in SequenceMatcher(None, words(before), words(after), autojunk=False).get_opcodes()
            for old, new in [(words(before)[i:j], words(after)[k:n])]
            if tag != "equal"
        ]
        assert len(changes) == 1 and max(map(len, changes[0])) == 1, row
        for text in after:
            assert text[0].isupper() and text.endswith(".") and "  " not in text and " ," not in text, row


@pytest.mark.parametrize("name", WITH_CONTRAST_SET)
def test_originals_are_test_rows_and_edits_are_no_rows(name: str) -> None:
    columns = COLUMNS[name]
    by_split = {s: {tuple(row[c] for c in columns) for row in mini.rows(name, s)} for s in mini.splits(name)}
    rows = mini.contrast_rows(name)
    originals = [side(row, "original", name) for row in rows]
    assert set(originals) <= by_split["test"] and len(set(originals)) == 500
    edits = {side(row, "perturbed", name) for row in rows}
    assert len(edits) == len(rows) == len({row["pair_id"] for row in rows})
    assert not edits & set.union(*by_split.values())


def test_labels_are_turned_both_ways() -> None:
    pairs = Counter((row["original_label"], row["perturbed_label"]) for row in mini.contrast_rows("mini-sentiment"))
    assert set(pairs) == {(0, 1), (1, 0)} and min(pairs.values()) > 200
    pairs = Counter((row["original_label"], row["perturbed_label"]) for row in mini.contrast_rows("mini-nli"))
    assert len(pairs) == 6, "every label into every other"
    bundles = Counter(side(row, "original", "mini-nli") for row in mini.contrast_rows("mini-nli"))
    assert set(bundles.values()) == {1, 2}


def test_rows_are_deterministic_and_a_caller_cannot_change_them() -> None:
    mini.contrast_rows("mini-sentiment")[0]["original_text"] = "something else"
    assert mini.contrast_rows("mini-sentiment")[0]["original_text"] != "something else"


def test_other_generators_are_refused() -> None:
    with refusal(ResourceError, "mini-topic", "mini-sentiment", "mini-nli"):
        mini.contrast_rows("mini-topic")
