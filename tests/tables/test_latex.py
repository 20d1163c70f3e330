"""Tests of how LaTeX tables fit their column. Where pdflatex is installed, they are compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.tables.latex import Body, Look, bold, coloured, layout

BODY = Body(
    caption="Attack success rate, % (bold: the lowest)",
    header=["Attack", "Encoder", *(f"a long task {i}" for i in range(8))],
    rows=[["TextFooler", "robustsentembed-mini{[}variant=released{]}", *["12.3 {[}10.0, 15.0{]}"] * 8]] * 3,
    groups=[1],
    aligned=["left", "left", *["right"] * 8],
    notes=["Flagged: robustsentembed-minilm-mlm[variant=released]/mini-sentiment/adversarial/textfooler."],
)


def test_the_environment_says_how_wide_and_how_large() -> None:
    text = layout(BODY, Look(wide=True, size="small"))
    assert text.count("{table*}") == 2
    assert text.index("\\small") < text.index("\\begin{tabular}")
    plain = layout(BODY, Look())
    assert "{table*}" not in plain and "\\small" not in plain
    assert "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%" in plain


def long(groups: int, rows: int) -> Body:
    """Return a table with so many groups of so many rows each."""
    names = [[f"attack {g}" if r == 0 else "", f"encoder {g}.{r}", "1.0"] for g in range(groups) for r in range(rows)]
    starts = [g * rows for g in range(1, groups)]
    return Body("Rates", ["Attack", "Encoder", "mr"], names, starts, ["left", "left", "right"], ["All notes."])


@pytest.mark.parametrize("wrong", [{"aligned": ["left"] * 4}, {"header": ["Attack", "Encoder"]}, {"rows": [["a"] * 4]}])
def test_each_column_is_set_in_one_way(wrong: dict[str, list[Any]]) -> None:
    with pytest.raises(ValueError, match="must have the same"):
        replace(long(1, 2), **wrong)


def encoders(text: str) -> list[str]:
    return re.findall(r"encoder [0-9.]+", text)


def test_a_table_of_a_page_is_one_environment() -> None:
    text = layout(long(1, 38), Look())
    assert text.count("\\begin{table}") == 1 and "continued" not in text


@given(st.integers(1, 9), st.integers(1, 90))
def test_a_long_table_is_divided_into_pages_and_loses_no_row(groups: int, rows: int) -> None:
    body = long(groups, rows)
    text = layout(body, Look())
    pages = text.split("\\begin{table}")[1:]
    assert encoders(text) == [row[1] for row in body.rows]
    assert all(len(encoders(page)) + page.count("\\midrule") / 2 <= 38.5 for page in pages)
    assert [page.count("(continued)") for page in pages] == [0] + [1] * (len(pages) - 1)
    assert [page.count("\\addtocounter{table}{-1}") for page in pages] == [0] + [1] * (len(pages) - 1)
    assert [page.count("All notes.") for page in pages] == [0] * (len(pages) - 1) + [1]
    for page in pages:
        of_group = encoders(page)[0].removeprefix("encoder ").split(".")[0]
        assert f"attack {of_group} & encoder {of_group}." in page, "the first row of a page names its group"
    assert text.count("\\midrule") >= len(pages)


def test_a_table_without_rows_is_an_empty_one() -> None:
    assert "\\begin{tabular}{llr}" in layout(long(0, 0), Look())


def test_pages_end_between_groups_where_they_can() -> None:
    pages = layout(long(4, 15), Look()).split("\\begin{table}")[1:]
    assert [len(encoders(page)) for page in pages] == [30, 30]


@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize("wide", [False, True])
def test_no_page_is_too_short_for_its_part(columns: str, wide: bool, tmp_path: Path) -> None:
    log = compiled(f"\\documentclass[{columns},11pt]{{article}}", layout(long(7, 14), Look(wide=wide)), tmp_path)
    assert "Float too large" not in log


@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize("wide", [False, True])
def test_a_table_that_is_scaled_down_is_not_divided_before_it_must_be(columns: str, wide: bool, tmp_path: Path) -> None:
    body = long(5, 10)
    header = [*body.header, *(f"a long task {i}" for i in range(8))]
    rows = [[*row, *["12.3 {[}10.0, 15.0{]}"] * 8] for row in body.rows]
    text = layout(replace(body, header=header, rows=rows, aligned=[*body.aligned, *["right"] * 8]), Look(wide=wide))
    assert "continued" not in text
    assert "Float too large" not in compiled(f"\\documentclass[{columns},11pt]{{article}}", text, tmp_path)


def test_no_page_is_too_short_for_groups_of_one_row(tmp_path: Path) -> None:
    log = compiled("\\documentclass[11pt]{article}", layout(long(60, 1), Look()), tmp_path)
    assert "Float too large" not in log


def compiled(documentclass: str, table: str, folder: Path) -> str:
    """Compile a document with a table and return the log."""
    compiler = shutil.which("pdflatex")
    if compiler is None:
        pytest.skip("pdflatex is not installed, so the table is not compiled")
    needed = table.splitlines()[0].removeprefix("% Needs ")
    start = f"{documentclass}{needed}\\begin{{document}}"
    (folder / "a.tex").write_text(f"{start}\n{table}\n\\end{{document}}\n", encoding="utf-8")
    command = [compiler, "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "a.log").read_text(encoding="latin-1")


@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize("look", [Look(), Look(wide=True, size="footnotesize")])
def test_no_box_is_overfull(columns: str, look: Look, tmp_path: Path) -> None:
    log = compiled(f"\\documentclass[{columns}]{{article}}", layout(BODY, look), tmp_path)
    assert "Overfull" not in log


def test_texts_with_marks_compile_and_keep_to_their_column(tmp_path: Path) -> None:
    marked = " ".join(["words that stay", bold("one that is new"), coloured(bold("one that changes"), "red")] * 9)
    rows = [["1", marked, "0.93"]] * 4
    body = Body("Positives", ["", "Sentence", "Cosine"], rows, [2], ["left", "text", "right"], [])
    log = compiled("\\documentclass{article}", layout(body, Look()), tmp_path)
    assert "Overfull" not in log
