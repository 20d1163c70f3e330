"""Tests of what LaTeX tables say, and where pdflatex is installed, that they compile and fit articles' columns."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench import api
from rbench.api import runs
from rbench.errors import StoreError
from rbench.tables.latex import LatexBody, LatexStyle, latex_escape, write_environments
from rbench.tables.shapes import PaperCell, PaperGrid
from tests import reference


def grid(groups: int, rows: int, values: int = 1, more: str = "") -> PaperGrid:
    """Return a table with so many groups of so many rows each."""
    found = [
        [PaperCell(f"attack {g}"), PaperCell(f"encoder {g}.{r}"), *[PaperCell("12.3", more)] * values]
        for g in range(groups)
        for r in range(rows)
    ]
    header = ["Attack", "Encoder", *(f"a long task {i}" for i in range(values))]
    starts = [g * rows for g in range(1, groups)]
    return PaperGrid(header, found, starts, ["left", "left", *["right"] * values], 2, grouped=True)  # type: ignore[list-item]


def body(of: PaperGrid) -> LatexBody:
    return LatexBody(["Attack success rate, %."], of, ["All notes."])


def encoders(text: str) -> list[str]:
    return re.findall(r"encoder [0-9.]+", text)


def test_the_environment_says_how_wide_and_how_large_and_has_a_label() -> None:
    text = write_environments(body(grid(2, 3)), LatexStyle(wide=True, size="small", label="my suite/asr"))
    assert text.count("{table*}") == 2
    assert text.index("\\small\n") < text.index("\\begin{tabular}")
    assert text.count("\\label{tab:my-suite-asr}") == 1
    plain = write_environments(body(grid(2, 3)), LatexStyle())
    assert "siunitx" not in plain and "{table*}" not in plain and "\\small\n" not in plain and "\\label" not in plain


def test_a_width_is_one_of_a_page() -> None:
    for width in (3, 5000):
        with pytest.raises(StoreError):
            LatexStyle(width=width)


def test_a_table_of_a_page_is_one_environment() -> None:
    text = write_environments(body(grid(1, 34)), LatexStyle(size="normalsize", width=345))
    assert text.count("\\begin{table}") == 1 and "continued" not in text


@settings(max_examples=15)
@given(st.integers(1, 5), st.integers(1, 60))
def test_a_long_table_is_divided_into_pages_and_loses_no_row(groups: int, rows: int) -> None:
    of = grid(groups, rows)
    # Only some rows are flagged, so that only the floats that have such rows say what the sign means.
    flagged = [[*row[:2], replace(row[2], sign="†" * (i % 50 == 0))] for i, row in enumerate(of.rows)]
    told = replace(body(replace(of, rows=flagged)), legend={"†": "†: flagged."})
    text = write_environments(told, LatexStyle(width=345, label="t"))
    pages = text.split("\\begin{table}")[1:]
    assert sorted(encoders(text)) == sorted(row[1].text for row in of.rows)
    assert [page.count("(continued)") for page in pages] == [0] + [1] * (len(pages) - 1)
    assert [page.count("$^{\\dagger}$: flagged") for page in pages] == ["12.3$^" in page for page in pages]
    assert [page.count("\\addtocounter{table}{-1}") for page in pages] == [0] + [1] * (len(pages) - 1)
    assert [page.count("\\label") for page in pages] == [1] + [0] * (len(pages) - 1)
    assert [page.count("All notes.") for page in pages] == [0] * (len(pages) - 1) + [1]
    for page in pages if groups > 1 else ():
        of_group = encoders(page)[0].removeprefix("encoder ").split(".")[0]
        assert f"attack {of_group}" in page, "a page names the group of its first row"


def test_long_captions_and_notes_take_room_of_the_rows() -> None:
    of, look = grid(1, 33), LatexStyle(size="normalsize", width=219)
    assert write_environments(body(of), look).count("\\begin{table}") == 1
    words = "There are many words to be said of this table. " * 9
    assert write_environments(LatexBody([words], of, ["All notes."]), look).count("\\begin{table}") == 2
    assert write_environments(LatexBody(["A rate."], of, [words * 2]), look).count("\\begin{table}") == 2


def test_short_notes_that_the_caption_has_said_are_not_replaced_by_all() -> None:
    run = reference.run("vadvcse-table2-local")
    short, full = (api.table(run, metric="senteval", fmt="latex", notes=notes) for notes in ("short", "full"))
    assert " cell: " in short and "Published without splits" not in short and "Names in notes" not in short
    assert "Published without splits" in full


def test_a_table_whose_rows_and_columns_changed_places_has_its_caption() -> None:
    text = api.table(reference.run("noise-local"), metric="noise", fmt="latex", wide=True)
    assert r"\caption{Accuracy under noise" in text and "Bold: the highest of each column" in text


def test_a_table_without_rows_is_an_empty_one() -> None:
    assert "\\begin{tabular}{@{}llr@{}}" in write_environments(body(grid(0, 0)), LatexStyle())


def test_pages_end_between_groups_where_they_can() -> None:
    pages = write_environments(body(grid(4, 15, more="[10.0, 15.0]")), LatexStyle(size="normalsize", width=219)).split(
        "\\begin{table}"
    )[1:]
    assert all(len(encoders(page)) % 15 == 0 for page in pages) and sum(len(encoders(page)) for page in pages) == 60


def compiled(documentclass: str, table: str, folder: Path) -> str:
    """Compile a document with tables and return the log."""
    compiler = shutil.which("pdflatex")
    if compiler is None:
        pytest.skip("pdflatex is not installed, so the table is not compiled")
    start = f"{documentclass}\\usepackage{{array,booktabs,xcolor}}\\begin{{document}}"
    (folder / "a.tex").write_text(f"{start}\n{table}\n\\end{{document}}\n", encoding="utf-8")
    command = [compiler, "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "a.log").read_text(encoding="latin-1")


SHAPES = [grid(7, 14), grid(5, 10, 8), grid(3, 4, 8, "[10.0, 15.0]"), grid(60, 1), grid(2, 3, 2, "± 3.1")]


@pytest.mark.nightly
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize("points", [10, 11])
def test_tables_fit_columns_and_pages(columns: str, points: int, tmp_path: Path) -> None:
    looks = [LatexStyle(), LatexStyle(size="footnotesize")]
    looks = (
        [*looks, LatexStyle(wide=True)]
        if columns == "twocolumn"
        else [LatexStyle(width=345), LatexStyle(width=345, size="small")]
    )
    text = "\\clearpage\n".join(write_environments(body(of), look) for of in SHAPES for look in looks)
    log = compiled(f"\\documentclass[{columns},{points}pt]{{article}}", text, tmp_path)
    assert "Overfull" not in log and "Float too large" not in log


@pytest.mark.nightly
@pytest.mark.parametrize("name", reference.NAMES)
def test_the_tables_of_committed_runs_fit_an_article_of_two_columns(name: str, tmp_path: Path) -> None:
    results, texts = runs.results_of(reference.run(name)), []
    for wanted in results.plan.suite.tables:
        for intervals in (False, True):
            made = runs.build_table(results, wanted)
            texts.append(runs.render_built_table(made, results, wanted, "latex", runs.TableLook(intervals=intervals)))
    log = compiled("\\documentclass[twocolumn,11pt]{article}", "\\clearpage\n".join(texts), tmp_path)
    assert "Overfull \\hbox" not in log and "Float too large" not in log
    assert not [text for text in texts if "resizebox" in text or "--notes" in text or "{-}notes" in text]


AS_THEY_ARE = [
    "``",
    "?`",
    "!`",
    "`",
    '"',
    "''",
    "'x'",
    ",,",
    "--",
    "---",
    "<<",
    ">>",
    *"½¼¾€£¥¢§¶№°©®™•¿¡†‡±×÷≤≥|[]*{}$&#%<>",
]


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["OT1", "T1"])
def test_characters_are_read_back_from_the_compiled_page(encoding: str, tmp_path: Path) -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed, so the page is not read")
    lines = "\n\n".join(f"x{latex_escape(text)}y" for text in AS_THEY_ARE)
    compiled(f"\\documentclass{{article}}\\usepackage[{encoding}]{{fontenc}}\\pagestyle{{empty}}", lines, tmp_path)
    read = subprocess.run(["pdftotext", "-layout", "a.pdf", "-"], cwd=tmp_path, capture_output=True, check=True)
    found = [line.replace(" ", "") for line in read.stdout.decode().replace("\f", "").splitlines() if line.strip()]
    assert found == [f"x{text}y" for text in AS_THEY_ARE]


def test_an_interval_is_a_subscript_or_plus_minus_and_the_caption_says_of_what() -> None:
    run = reference.run("table1-local")
    small = api.table(run, fmt="latex", interval_style="subscript", width=700)
    assert "$_{[" in small and "pm" not in small
    assert "Brackets hold intervals. Wilson 95\\% intervals." in small
    plus = api.table(run, fmt="latex", interval_style="pm", width=700)
    assert "$_{" not in plus and "$\\pm$" in plus
    for text in (small, plus):
        assert "cell: 8 to 92. Seed 0." in text and "Encoder: all-MiniLM-L6-v2." in text
        assert "\\label{tab:table1-asr}" in text


@pytest.mark.nightly
def test_the_ten_rows_of_the_papers_table_are_two_floats_at_most(tmp_path: Path) -> None:
    for layout_of in ("paper", "by-attack"):
        text = api.table(reference.run("table1-side-by-side"), fmt="latex", layout=layout_of)
        assert text.count("\\begin{table") <= 2
        assert text.count("To fit: ") == 1 and "letters are scriptsize" in text


@pytest.mark.nightly
def test_texts_with_marks_compile_and_keep_to_their_column(tmp_path: Path) -> None:
    pieces = (("words that stay ", False), ("one that changes", True), (" ", False)) * 9
    row = [PaperCell("1"), PaperCell("", pieces=pieces, colour="red"), PaperCell("0.93")]
    of = PaperGrid(["", "Sentence", "Cosine"], [row] * 4, [2], ["left", "text", "right"], 1)
    text = write_environments(replace(body(of), caption=["Positives."]), LatexStyle())
    assert r"\textcolor{red}{\textbf{one that changes}}" in text
    assert "Overfull" not in compiled("\\documentclass{article}", text, tmp_path)


def test_each_row_of_a_table_of_victims_names_its_encoder() -> None:
    """It has no attacks, so the first column names no groups and cannot stand above the rows."""
    latex = api.table(reference.run("adcl-gated-ag-adversarial"), metric="clean", fmt="latex")
    assert "ADCL & Clean & 90.0" in latex and "\\emph{all-MiniLM" not in latex


def test_a_place_that_models_share_is_a_number_and_no_name_for_the_caption() -> None:
    text = api.table(reference.run("board-local"), metric="ranks", fmt="latex")
    caption = next(line for line in text.splitlines() if line.startswith("\\caption"))
    assert "Place" not in caption
    assert "Model & Place & " in text and "Random MiniLM & 1 & " in text


def test_a_table_is_as_wide_as_a_page_of_one_column_unless_that_takes_another_float() -> None:
    rooms = LatexStyle().list_rooms()
    assert list(dict.fromkeys((room.points, room.page) for room in rooms)) == [(219, False), (345, True), (455, True)]
    assert {room.points for room in LatexStyle(wide=True).list_rooms()} == {345, 455}
    assert {room.points for room in LatexStyle(width=345).list_rooms()} == {345}
    narrow = write_environments(body(grid(2, 3, 8)), LatexStyle())
    assert narrow.count("{table*}") == 2 and "--width" not in narrow
    wide = write_environments(body(grid(3, 10, 8, "[10.0, 15.0]")), LatexStyle())
    assert "For an article of one column: --width 345" in wide.splitlines()[1]
    assert "--width" not in write_environments(body(grid(3, 10, 8, "[10.0, 15.0]")), LatexStyle(width=500))
