"""What a result shows: frames with named columns, a table, and changed words, escaped."""

from __future__ import annotations

import html
import re

import pytest

from rbench.api.results import EXAMPLES_SHOWN, html_marked
from rbench.schema import TaskSpec
from rbench.tables.frame import _DTYPES
from tests.api.builders import MIXED_RESULT, make_outcome, make_result


def test_the_summary_counts() -> None:
    (row,) = MIXED_RESULT.summary.to_dict("records")
    assert {"victim": "mine", "attack": "pwws", "n": 2, "asr": 0.5, "queries": 20.0}.items() <= row.items()
    assert row["clean"] == pytest.approx(2 / 3) and row["aua"] == pytest.approx(1 / 3)
    assert row["perturbed"] == pytest.approx(1 / 3)
    assert [row[name] for name in ("succeeded", "failed", "skipped", "errored")] == [1, 1, 1, 1]
    assert row["asr_low"] == pytest.approx(0.0945, abs=1e-4)  # Wilson's interval of 1 in 2
    assert row["asr_high"] == pytest.approx(0.9055, abs=1e-4)


def test_the_frame_has_a_row_for_each_text_and_the_columns_of_runs() -> None:
    frame = MIXED_RESULT.frame
    assert list(frame.status) == ["succeeded", "failed", "skipped", "errored"]
    assert list(frame.label_name) == ["positive"] * 4 and frame.perturbed_name[0] == "negative"
    assert frame.original_name[2] == "negative" and frame.original[0] == "a good film"
    shared = set(frame.columns) & set(_DTYPES)
    assert {"attack", "seed", "example_id", "num_queries", "perturbed_columns", "error"} <= shared
    assert all(str(frame[name].dtype) == _DTYPES[name] for name in shared)


def test_a_table_for_people() -> None:
    header, _, row = MIXED_RESULT.table().splitlines()
    cells = dict(zip(*([cell.strip() for cell in line.strip("|").split("|")] for line in (header, row)), strict=True))
    assert cells["ASR %"] == "50.0" and cells["95% interval"] == "9.5 to 90.5" and cells["n"] == "2"
    assert cells["clean %"] == "66.7" and cells["queries"] == "20.0"


def test_nothing_attacked_has_no_rate() -> None:
    assert "–" in make_result(make_outcome(0, "skipped", original_prediction=0)).table()


def test_html_marks_the_words_that_changed_and_escapes_them() -> None:
    shown = MIXED_RESULT._repr_html_()
    assert "<b>fine" not in shown and "&lt;b&gt;fine&lt;/b&gt;" in shown
    assert re.search(r"<del[^>]*>good</del> <ins[^>]*>&lt;b&gt;fine&lt;/b&gt;</ins> film", shown)
    assert "positive → negative" in shown and "50.0" in shown


def test_unchanged_words_are_escaped_too() -> None:
    assert html_marked("<i> old", "<i> new").startswith("&lt;i&gt; <del")


def test_both_texts_can_be_read_off_the_marks() -> None:
    shown = html_marked("a <good> film & more", "a fine film & <i>more")
    old = html.unescape(re.sub(r"<ins.*?</ins>|</?del[^>]*>", "", shown))
    new = html.unescape(re.sub(r"<del.*?</del> ?|</?ins[^>]*>", "", shown))
    assert old.split() == ["a", "<good>", "film", "&", "more"] and new == "a fine film & <i>more"


def test_a_terminal_shows_table_and_changes_without_control_characters() -> None:
    evil = make_outcome(0, "succeeded", perturbed=("a \x1b[2J film",))
    said = repr(make_result(evil))
    assert "0 positive -> negative: a [[good]] -> [[\\x1b[2J]] film" in said and "\x1b" not in said
    assert said.startswith(make_result(evil).table())


def test_many_examples_are_cut_and_it_says_so() -> None:
    many = make_result(*(make_outcome(i, "succeeded") for i in range(EXAMPLES_SHOWN + 1)))
    assert (
        f"{EXAMPLES_SHOWN} of {EXAMPLES_SHOWN + 1} are shown" in repr(many)
        and f"{EXAMPLES_SHOWN} of {EXAMPLES_SHOWN + 1}" in many._repr_html_()
    )
    assert many._repr_html_().count("<del") == EXAMPLES_SHOWN


def test_pairs_are_shown_by_column() -> None:
    task = TaskSpec(name="texts", kind="pair", columns=("q", "<a>"), labels=("no", "yes"))
    pair = make_outcome(0, "succeeded", original=("a", "b c"), perturbed=("a", "b d"))
    shown = make_result(pair, task=task)._repr_html_()
    assert "<b>q:</b> a<br>" in shown and "<b>&lt;a&gt;:</b> b " in shown
