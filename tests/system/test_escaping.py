"""Tests that no text can control a terminal, turn the direction of writing, or fail to be written as UTF-8."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.system.console import csv_cell, harmless


@given(st.text(st.characters(codec=None)))
def test_what_is_left_can_be_written_and_controls_nothing(text: str) -> None:
    shown = harmless(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(char) in ("Cc", "Zl", "Zp") and char not in "\n\t" for char in shown)
    turning = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    assert not any(unicodedata.bidirectional(char) in turning for char in shown)
    assert not {*"\u200e\u200f\u061c\ufeff"} & {*shown}


def test_words_of_all_scripts_stay() -> None:
    for text in (
        "na\u00efve caf\u00e9",
        "\u0633\u0644\u0627\u0645",
        "\u4e2d\u6587",
        "\U0001f468\u200d\U0001f469",
        "a\tb\nc",
    ):
        assert harmless(text) == text


def test_json_stays_json_with_the_same_content() -> None:
    data = {"name": "a\x1b[2J\x00\x9b\u202e\u2028\ud800"}
    assert json.loads(harmless(json.dumps(data, ensure_ascii=False))) == data


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "-", "--3", "\uff1d1"]
)
def test_no_cell_is_a_formula(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-3.2, -3, None, True, "-3.2", "+4", "-1e-05", "-inf", "a=b", "", "'=1", "a film"])
def test_numbers_and_plain_text_stay(value: object) -> None:
    assert csv_cell(value) is value
