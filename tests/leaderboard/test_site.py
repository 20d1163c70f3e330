"""Names of files, and where intervals are drawn."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.config.entries import load_encoder
from rbench.config.registry import Registry
from rbench.leaderboard.html import _bar_place
from rbench.leaderboard.site import _entry_facts, unique_file_names
from rbench.report.data import RunPage
from rbench.tables.table import Number

RUN = RunPage(name="r", href="runs/r.html", title="r", suite="s", date="", jobs="", version="")


@settings(max_examples=60)
@given(st.lists(st.text(alphabet="aA[]=./\\-2é %", max_size=6), max_size=8))
def test_names_of_files_differ_and_need_no_quotes(names: list[str]) -> None:
    found = unique_file_names(names)
    assert len(found) == len(names) == len({one.lower() for one in found})
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", one) for one in found)


def test_a_long_name_is_cut() -> None:
    first, second = unique_file_names(["x" * 300, "x" * 299])
    assert len(first) <= 104 and len(second) <= 104 and first != second


def test_a_bar_stays_on_its_track() -> None:
    assert _bar_place(Number(-3.0, False, None, -8.0, 120.0)) == {"low": 0.0, "high": 100.0, "value": 0.0}
    assert _bar_place(Number(None, True, None, None, 0.25)) == {"high": 25.0}


def test_facts_of_an_encoder_name_each_prompt_once_and_the_works_in_words() -> None:
    facts = dict(_entry_facts(load_encoder("e5-base-v2", Registry()), 109_000_000))
    assert facts["prompt"].startswith("“query: ” (single, nli,") and facts["prompt"].endswith("“passage: ” (document)")
    assert facts["reference"].startswith("Wang et al. (2022)") and facts["weights"] == "109,000,000"
    assert "prompt" not in dict(_entry_facts(load_encoder("minilm", Registry()), None))


def test_a_run_without_a_date_says_so() -> None:
    assert RUN.day == "undated"
