"""Word by word: the pairs keep all of both texts, and marks stand where words changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.system.changes import iter_changes, mark_changes

texts = st.lists(st.sampled_from(["a", "good", "fine", "film", " ", "  ", "\n", "[x]", "é"]), max_size=12).map("".join)


@given(texts, texts)
def test_both_texts_can_be_read_off_their_changes(original: str, perturbed: str) -> None:
    pairs = list(iter_changes(original, perturbed))
    assert "".join(old for old, _ in pairs) == original
    assert "".join(new for _, new in pairs) == perturbed


@given(texts)
def test_the_same_text_has_no_marks(text: str) -> None:
    assert mark_changes(text, text) == text


@pytest.mark.parametrize(
    ("original", "perturbed", "shown"),
    [
        ("a good film", "a fine film", "a [[good]] -> [[fine]] film"),
        ("good film", "fine movie", "[[good]] -> [[fine]] [[film]] -> [[movie]]"),
        ("a good film", "a g ood film", "a [[good]] -> [[g ood]] film"),
        ("a very good film", "a good film", "a [[very ]] -> [[]]good film"),
    ],
)
def test_marks_stand_where_words_changed(original: str, perturbed: str, shown: str) -> None:
    assert mark_changes(original, perturbed) == shown


def test_a_long_text_of_one_word_is_compared_at_once() -> None:
    """Its words match each other everywhere, so looking for the longest common part would take minutes."""
    long = "word " * 20_000
    assert list(iter_changes(long, long.replace("word", "ward", 1)))[:2] == [("word", "ward"), (long[4:], long[4:])]
    assert list(iter_changes(long, f"{long}indeed"))[-1] == ("", "indeed")
    assert (
        list(iter_changes(long, f"so {long}"))[-1] == ("", "so ") or mark_changes(long, f"so {long}").count("[[") == 2
    )
