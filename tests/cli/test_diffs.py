"""Tests word diffs: they keep all of both texts, and the headline describes the outcome."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.api.changes import changes, marked
from rbench.cli import diffs
from rbench.cli.diffs import coloured, headline
from tests.cli.conftest import outcome

texts = st.lists(st.sampled_from(["a", "good", "fine", "film", " ", "  ", "\n", "[x]", "é"]), max_size=12).map("".join)


@given(texts, texts)
def test_both_texts_can_be_read_off_their_changes(original: str, perturbed: str) -> None:
    pairs = list(changes(original, perturbed))
    assert "".join(old for old, _ in pairs) == original
    assert "".join(new for _, new in pairs) == perturbed


@given(texts)
def test_the_same_text_has_no_marks(text: str) -> None:
    assert marked(text, text) == text


@pytest.mark.parametrize(
    ("original", "perturbed", "shown"),
    [
        ("a good film", "a fine film", "a [[good]] -> [[fine]] film"),
        ("good film", "fine movie", "[[good]] -> [[fine]] [[film]] -> [[movie]]"),
        ("a good film", "a g ood film", "a [[good]] -> [[g ood]] film"),
        ("a very good film", "a good film", "a[[ very]] -> [[]] good film"),
    ],
)
def test_marks_stand_where_words_changed(original: str, perturbed: str, shown: str) -> None:
    assert marked(original, perturbed) == shown


def test_colours_strike_the_old_word_and_stress_the_new() -> None:
    text = coloured("a good film", "a fine film")
    assert text.plain == "a good fine film"
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles == {"good": "red strike", "fine": "bold green"}


def test_the_headline_says_what_came_of_it() -> None:
    labels = ("negative", "positive")
    assert headline(outcome(), labels).startswith(
        "succeeded, label positive, predicted positive -> negative, 41 queries"
    )
    assert headline(outcome(status="failed"), ()) == "failed, label 1, predicted 1, 41 queries, 1 of 3 words changed"
    errored = outcome(status="errored", original_prediction=None, error="Traceback\nValueError: x")
    assert "errored, label positive, predicted nothing" in headline(errored, labels)
    wordless = outcome(status="skipped", original_prediction=None, skip_reason="no words")
    assert headline(wordless, labels) == "skipped, label positive, predicted nothing, no words to change"
    assert headline(outcome(status="skipped"), labels).endswith(", wrong before any change")


def test_pairs_are_shown_column_by_column(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = outcome(original=("it rains", "it is wet"), perturbed=("it rains", "it is moist"), error="T\nValueError: x")
    diffs.show(pair, ("premise", "hypothesis"), (), "[1/1]")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  premise: it rains",
        "  hypothesis: it is [[wet]] -> [[moist]]",
        "  ValueError: x",
        "",
    ]
    monkeypatch.setattr(diffs, "is_terminal", lambda: True)
    diffs.show(pair, ("premise", "hypothesis"), (), "[1/1]")
    assert "  hypothesis: it is wet moist" in capsys.readouterr().out
