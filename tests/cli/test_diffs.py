"""Tests word diffs: they keep all of both texts, and the headline describes the outcome."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from rbench.cli import console as show
from rbench.cli.console import colour_change, summarise_outcome
from tests.cli.conftest import outcome


def test_colours_strike_the_old_word_and_stress_the_new() -> None:
    text = colour_change("a good film", "a fine film")
    assert text.plain == "a good fine film"
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles == {"good": "red strike", "fine": "bold green"}


def test_the_headline_says_what_came_of_it() -> None:
    labels = ("negative", "positive")
    assert summarise_outcome(outcome(), labels).startswith(
        "succeeded, label positive, predicted positive -> negative, 41 queries"
    )
    assert (
        summarise_outcome(outcome(status="failed"), ())
        == "failed, label 1, predicted 1, 41 queries, 1 of 3 words changed"
    )
    errored = outcome(status="errored", original_prediction=None, error="Traceback\nValueError: x")
    assert "errored, label positive, predicted nothing" in summarise_outcome(errored, labels)
    wordless = outcome(status="skipped", original_prediction=None, skip_reason="no words")
    assert summarise_outcome(wordless, labels) == "skipped, label positive, predicted nothing, no words to change"
    assert summarise_outcome(outcome(status="skipped"), labels).endswith(", wrong before any change")


def test_pairs_are_shown_column_by_column(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = outcome(original=("it rains", "it is wet"), perturbed=("it rains", "it is moist"), error="T\nValueError: x")
    show.print_example(pair, ("premise", "hypothesis"), (), "[1/1]")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  premise: it rains",
        "  hypothesis: it is [[wet]] -> [[moist]]",
        "  ValueError: x",
        "",
    ]
    monkeypatch.setattr(show, "is_terminal", lambda: True)
    show.print_example(pair, ("premise", "hypothesis"), (), "[1/1]")
    assert "  hypothesis: it is wet moist" in capsys.readouterr().out


def test_a_text_that_is_shown_while_bars_move_is_printed_above_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "is_terminal", lambda: True)
    shown = io.StringIO()
    with Progress(console=Console(file=shown, force_terminal=True, width=80)) as bars:
        bars.add_task("attack", total=2)
        show.show_column("", "a good film", "a fine film")
    assert "good" in shown.getvalue() and "fine" in shown.getvalue()
    assert "film" not in capsys.readouterr().out  # there it would stand in a line with a bar
