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
    assert printed.names(tmp_path) == ["robustsentembed-table5"]
    assert printed.load("robustsentembed-table5", tmp_path) == printed.load("robustsentembed-table5")


def test_an_unknown_name_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(SuiteError, match=r'unknown printed table "robustsentembed-tabel5"; did you mean robustsent'):
        printed.load("robustsentembed-tabel5")


def test_errors_name_file_line_and_column(tmp_path: Path) -> None:
    lines = ORIGINAL.read_text(encoding="utf-8").replace('"76.84"', '"76.84%"').splitlines()
    row = next(number for number, line in enumerate(lines, 1) if "76.84%" in line)
    column = lines[row - 1].index('"76.84%"') + 1
    path = tmp_path / ORIGINAL.name
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SuiteError, match=rf'{path.name}:{row}:{column}: "76.84%" is not a number'):
        printed.read_table(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": []}, r"json:1:1: row .* has 1 cells for 0 columns"),
        ({"seeds": 5}, r'unknown key "seeds"'),
        ({"title": None}, r"`title`: expected text, found nothing"),
        ({"notes": "short"}, r"`notes`: expected a list"),
        ({"metrics": {"sts": {"title": "S", "unit": "%", "better": "up"}}}, r"expected \"lower\" or \"higher\""),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        printed.read_table(written(tmp_path, **changes))


def test_a_file_has_the_name_of_its_table(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"`source` is robustsentembed, table 5; the file is robustsentembed-table6"):
        printed.read_table(written(tmp_path, "robustsentembed-table6"))


def test_a_file_that_is_no_json_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "adcl-table1.json"
    path.write_text('{"title": "Broken",')
    with pytest.raises(SuiteError, match=r"adcl-table1.json:1:\d+: not valid"):
        printed.read_table(path)
