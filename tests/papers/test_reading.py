"""Printed tables are found by name, and errors in their files have a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbench.errors import SuiteError
from rbench.papers import tables as printed

ORIGINAL = printed.papers_folder() / "robustsentembed-table5.json"


def written(folder: Path, name: str = "robustsentembed-table5", **changes: Any) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**json.loads(ORIGINAL.read_text(encoding="utf-8")), **changes}), encoding="utf-8")
    return path


def test_a_table_is_found_by_its_name(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "README.md").write_text("Not a table")
    assert printed.list_printed_tables(tmp_path) == ["robustsentembed-table5"]
    assert printed.load_printed_table("robustsentembed-table5", tmp_path) == printed.load_printed_table(
        "robustsentembed-table5"
    )


def test_an_unknown_name_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(SuiteError) as caught:
        printed.load_printed_table("robustsentembed-tabel5")
    assert "robustsentembed-table5" in str(caught.value)


def test_what_is_wrong_is_refused_with_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, seeds=5)
    with pytest.raises(SuiteError) as caught:
        printed.read_table(path)
    assert f"{path.name}:1:" in str(caught.value) and "seeds" in str(caught.value)
