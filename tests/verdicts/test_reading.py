"""The sentence below a small table says what its bold says, and nothing more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rbench.tables import build
from rbench.verdicts.bold import mark_bold, read_table
from tests.verdicts.builders import TWO_ATTACKS, N, make_results


def said(root: Path, fell: dict[str, list[bool | None]], **more: object) -> str | None:
    results = make_results(root, fell, **more)  # type: ignore[arg-type]
    return read_table(mark_bold(build(results, "asr"), results))


def first(k: int) -> list[bool | None]:
    return [i < k for i in range(N)]


def test_what_differs_is_named_with_both_values_the_better_first(tmp_path: Path) -> None:
    assert said(tmp_path, {"a": first(48), "b": first(12)}) == "b is more robust than a under pwws (20.0 against 80.0)."


def test_what_does_not_differ_is_told_as_that(tmp_path: Path) -> None:
    even = said(tmp_path, {"a": first(30), "b": first(31)})
    assert even == "Nothing tells a and b apart: under pwws (50.0 against 51.7)."


def test_a_flagged_entry_is_not_said_to_be_like_the_other(tmp_path: Path) -> None:
    results = make_results(tmp_path, {"a": first(48), "b": first(12)})
    table = mark_bold(build(results, "asr"), results)
    (column,) = {contest.column for contest in table.contests}
    rows = [[*row] for row in table.rows]
    rows[1][column] = replace(rows[1][column], flagged=True, best=False)  # type: ignore[type-var]
    assert read_table(table) is not None and read_table(replace(table, rows=tuple(map(tuple, rows)))) is None


def test_attacks_are_joined_and_the_better_entry_is_named_once(tmp_path: Path) -> None:
    found = said(tmp_path, {"a": first(48), "b": first(12)}, attacks=TWO_ATTACKS)
    assert found is not None and found.count("b is more robust than a under pwws (20.0 against 80.0), ") == 1
    assert found.endswith(" and any attack (20.0 against 80.0).") and found.count("more robust") == 1


def test_three_entries_or_many_rows_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(tmp_path / "three", {name: first(12) for name in "abc"}) is None
    monkeypatch.setattr("rbench.verdicts.bold.MAX_ROWS", 1)
    assert said(tmp_path / "two", {"a": first(1), "b": first(40)}) is None


def test_options_are_named_only_where_the_names_are_the_same(tmp_path: Path) -> None:
    other = said(tmp_path / "other", {"a[x=1]": first(48), "b[x=2]": first(12)})
    assert other == "b is more robust than a under pwws (20.0 against 80.0)."
    same = said(tmp_path / "same", {"a[x=1]": first(48), "a[x=2]": first(12)})
    assert same == "a[x=2] is more robust than a[x=1] under pwws (20.0 against 80.0)."
