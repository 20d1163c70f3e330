"""Tables as text: rounding, escaping, and reading them back."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.errors import StoreError
from rbench.metrics import MetricCatalogue
from rbench.schema import Choice
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table, formats
from rbench.tables.formats import markdown_escape, render
from rbench.tables.latex import latex_escape
from rbench.tables.table import MarkedText, Number, Table
from tests.tables.conftest import finish, make_suite

MakeRun = Callable[..., RunStore]
NASTY = "a|b_c*d\\e$f%g#h&i{j}k~l^m<n>[o]\"'`p--q é ł 中 † –\nnext"


def small(*rows: tuple[object, ...], header: tuple[str, ...] = ("Attack", "mr"), notes: tuple[str, ...] = ()) -> Table:
    return Table(
        metric="asr",
        layout="paper",
        header=header,
        rows=rows,  # type: ignore[arg-type]
        groups=frozenset(range(1, len(rows))),
        cells=(),
        notes=notes,
        interval="",
        shows=MetricCatalogue()["asr"].about,
    )


@pytest.mark.parametrize(
    ("entry", "plain", "with_intervals"),
    [
        (Number(0.5125, True, 40, 0.4501, 0.5729), "51.2", "51.2 [45.0, 57.3]"),
        (Number(0.51249, True, 40, 0.45, 0.573, seed_sd=0.0131), "51.2", "51.2 [45.0, 57.3]"),
        (Number(123.456, False, 40, 100, 150.04), "123.5", "123.5 [100.0, 150.0]"),
        (Number(1.256, False, 40, 1.2, 1.304, digits=2), "1.26", "1.26 [1.20, 1.30]"),
        (Number(0.25, True, 4, partial=True), "25.0§", "25.0§"),
        (Number(0.25, True, 4, flagged=True, partial=True), "25.0†§", "25.0†§"),
        (Number(0.25, True, 4, 0.2, 0.3, flagged=True), "25.0†", "25.0† [20.0, 30.0]"),
        (Number(None, True, 0), "n/a", "n/a"),
        (Number(0.0, True, 3, 0.0, 0.5615), "0.0", "0.0 [0.0, 56.1]"),
    ],
)
def test_rounding(entry: Number, plain: str, with_intervals: str) -> None:
    assert formats.format_number(entry) == plain
    assert formats.format_number(entry, intervals=True) == with_intervals


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        ("brackets", "51.2 [45.0, 57.3]"),
        ("subscript", "51.2 [45.0, 57.3]"),
        ("pm", "51.2 ± 6.2"),
        ("spread", "51.2 ± 1.3"),
        (False, "51.2"),
    ],
)
def test_a_number_has_an_interval_or_a_spread_and_never_both(how: Any, shown: str) -> None:
    entry = Number(0.512, True, 40, 0.45, 0.573, seed_sd=0.0131)
    assert formats.format_number(entry, how) == shown


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_plus_minus_covers_the_interval(a: float, b: float, c: float) -> None:
    low, value, high = sorted((a, b, c))
    shown = formats.format_uncertainty(Number(value, False, 9, low, high, digits=6), "pm")
    distance = float(shown.removeprefix("± ")) + 1e-6
    assert value - distance <= low and high <= value + distance


def test_readers_of_a_paper_are_told_nothing_to_type() -> None:
    said = ["n 5. All notes: --notes full.", "rbench verify says what. Read on.", "No `evaluate` here.", "x -- y. A-b."]
    assert formats.without_commands(said) == ["n 5.", "Read on.", "x -- y. A-b."]


# ------------------------------------------------------------------------------------------------------ alignment


@pytest.mark.parametrize(
    ("rows", "sides"),
    [
        ([("pwws", "0", Number(0.5, True, 4), "6")], "llrr"),
        ([("pwws", "", "0.5", "-3.1 to 2.0", "<0.001", "supported")], "lrrrrl"),
        ([("", "12", "", "", "", ""), ("pwws", "", "-0.5", "n/a", "", "undecided")], "lrrrrl"),
        ([("pwws", 3, None, "layer 6")], "lrrl"),
        ([("pwws", 3, None, "не решено")], "lrrl"),
        ([("pwws", 3, MarkedText((("a word", False),), "red"))], "lrt"),
        ([], "rr"),
    ],
    ids=[
        "a name that is a number",
        "numbers as texts",
        "empty entries",
        "words behind numbers",
        "words in any letters",
        "texts",
        "no rows",
    ],
)
def test_numbers_are_flush_right_wherever_they_stand(rows: list[tuple[object, ...]], sides: str) -> None:
    table = small(*rows, header=tuple(f"h{i}" for i in range(len(sides))))
    rule = pipe_rows(render(table, "markdown"))[1]
    assert ["l" if cell.startswith(":") else "r" for cell in rule] == [*sides.replace("t", "l")]
    if "t" not in sides:
        return
    spec = re.search(r"\\begin\{tabular\}\{@\{\}(.*)@\{\}\}", render(table, "latex"))
    assert spec is not None and spec[1] == "lrp{0.6\\linewidth}"


# ----------------------------------------------------------------------------------------------------------- markdown


def pipe_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_markdown_is_the_papers_table(make_run: MakeRun) -> None:
    table = build_attack_table(make_run())
    text = render(table, "markdown")
    header, rule, *rows = pipe_rows(text)
    assert header == list(table.header)
    assert rule == [":" + "-" * (len(r) - 1) if i < 2 else "-" * (len(r) - 1) + ":" for i, r in enumerate(rule)]
    assert [row[0] for row in rows] == ["pwws", "", "bertattack[max_words=10]", ""]
    for row, entries in zip(rows, table.rows, strict=True):
        for shown, entry in zip(row[2:], entries[2:], strict=True):
            assert isinstance(entry, Number)
            assert entry.value is not None
            assert shown == (f"**{100 * entry.value:.1f}**" if entry.best else f"{100 * entry.value:.1f}")
    assert re.match(r"\*\*Attack success rate, % ↓ \(.*bold.*\)\*\*\n\n\|", text)
    for note in table.notes:
        assert f"\n- {note}" in text
    assert table.interval not in text
    assert table.interval in render(table, "markdown", intervals=True)
    assert re.search(r"\d\d\.\d \[\d+\.\d, \d+\.\d\]", render(table, "markdown", intervals=True))
    assert re.search(r"\d\d\.\d ± \d+\.\d \|", render(table, "markdown", "spread"))


def test_signs_are_explained_only_where_they_stand(make_run: MakeRun) -> None:
    whole = render(build_attack_table(make_run()), "markdown")
    holes = render(
        build_attack_table(make_run(done=lambda job: job.seed == 1 and "pwws" in job.parts, name="b")), "markdown"
    )
    for sign in ("\n- –: not done.", "\n- §: some seeds are missing, or some of what it is picked from."):
        assert sign not in whole
        assert sign in holes
    full = render(build_attack_table(make_run(name="c"), layout="full"), "markdown")
    assert "n/a: no example in the denominator." in full


class Tags(HTMLParser):
    """Collects what a browser would not show as text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)

    def unknown_decl(self, data: str) -> None:
        self.found.append(data)

    handle_endtag = handle_comment = handle_decl = handle_pi = unknown_decl


def tags(text: str) -> list[str]:
    reader = Tags()
    reader.feed(f"{text}</x>")
    return reader.found[:-1]


def test_signs_between_numbers_stay_as_they_are() -> None:
    assert markdown_escape("p < 0.05, p <0.001, 3 > 2 & 1") == "p < 0.05, p <0.001, 3 > 2 & 1"
    assert markdown_escape("<b>x</b> a<b >c") == "&lt;b&gt;x&lt;/b&gt; a&lt;b &gt;c"
    assert markdown_escape("~~a~~ ~5 ~") == "\\~\\~a\\~\\~ ~5 ~"
    assert [markdown_escape(text) for text in ("> a", " > a", "a >")] == ["&gt; a", " &gt; a", "a &gt;"]


@settings(deadline=None, max_examples=50)
@given(st.text() | st.text(alphabet="|\\*_`<>[]()&a;!?/- 1\n"))
def test_markdown_text_stays_in_its_cell(text: str) -> None:
    escaped = markdown_escape(text)
    assert "\n" not in escaped
    assert "\r" not in escaped
    assert not tags(escaped)
    unescaped = re.sub(r"\\[\\|*`_\[\]]", "x", escaped)
    assert not set("|*`") & set(unescaped)
    assert "](" not in unescaped


# -------------------------------------------------------------------------------------------------------------- LaTeX


@settings(deadline=None)
@given(st.text() | st.just(NASTY))
def test_latex_is_ascii_with_balanced_braces(text: str) -> None:
    escaped = latex_escape(text)
    assert escaped.isascii()
    assert escaped.isprintable()
    bare = re.sub(r"\\[{}]", "", escaped)
    depth = 0
    for char in bare:
        depth += {"{": 1, "}": -1}.get(char, 0)
        assert depth >= 0
    assert depth == 0
    for char in "#%&_":
        assert not re.search(rf"(?<!\\){char}", escaped.replace("\\\\", ""))
    assert "--" not in latex_escape(text.replace("–", "").replace("—", ""))


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("mnli_matched", r"mnli\_matched"),
        ("50% & $5 #1", r"50\% \& \$5 \#1"),
        (r"a\b", r"a\textbackslash{}b"),
        ("[x]", "{[}x{]}"),
        ("{~^}", r"\{\textasciitilde{}\textasciicircum{}\}"),
        ("a--b", "a-{}-b"),
        ("Möbius, Erdős, Łódź", r"M\"{o}bius, Erd\H{o}s, \L{}\'{o}d\'{z}"),
        ("中", "{[}U+4E2D{]}"),
        ("25.0†", r"25.0$^{\dagger}$"),
        ("``a?`b!`c", r"\textasciigrave{}\textasciigrave{}a?\textasciigrave{}b!\textasciigrave{}c"),
        ('say "no"', r"say {\ttfamily\char34}no{\ttfamily\char34}"),
        ("it's ''so''", r"it's \textquotesingle{}\textquotesingle{}so\textquotesingle{}\textquotesingle{}"),
        ("a,,b", "a,{},b"),
        ("½ € § №", r"\textonehalf{} \texteuro{} \S{} \textnumero{}"),
    ],
)
def test_latex_characters(text: str, latex: str) -> None:
    assert latex_escape(text) == latex


def test_latex_names_its_packages_and_separates_attacks(make_run: MakeRun) -> None:
    text = render(build_attack_table(make_run()), "latex")
    assert text.startswith("% Needs \\usepackage{booktabs} \\usepackage{array}\n")
    assert "resizebox" not in text
    assert "\\textbf{" in text


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(make_run: MakeRun, tmp_path: Path) -> None:
    nasty = (NASTY, Number(0.5, True, 4, 0.2, 0.8, seed_sd=0.1, best=True, partial=True))
    gap = ("[first] *", None)
    tables = [small(nasty, gap, notes=(NASTY,), header=(NASTY, "mr_x"))]
    partly = make_run(make_suite(finetune=(Choice(name="probe"), Choice(name="clean"))), done=lambda job: job.seed == 1)
    tables += [
        build_attack_table(partly, metric, layout) for metric in ("asr", "queries") for layout in ("paper", "full")
    ]
    shown = (render(table, "latex", intervals) for table in tables for intervals in (False, True, "pm"))
    body = "\n\\clearpage\n".join(shown)
    start = "\\documentclass{article}\n\\usepackage{booktabs,array}\n\\begin{document}\n"
    document = f"{start}{body}\n\\end{{document}}\n"
    (tmp_path / "table.tex").write_text(document)
    result = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )
    assert result.returncode == 0, result.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "table.log").read_text(errors="replace")


# ------------------------------------------------------------------------------------------------------- for programs


def test_csv_and_json_read_back_at_full_precision(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(done=lambda job: "pwws" in job.parts), "perturbed")
    content = json.loads(render(table, "json"))
    assert list(content) == ["metric", "cells", "flags", "notes"]
    assert content["metric"] == "perturbed"
    assert content["cells"] == list(table.cells)
    assert {"attack", "encoder", "finetune", "task", "value", "n", "low", "high"} <= set(content["cells"][0])
    assert content["notes"] == [*table.notes, table.interval, "Shares are fractions of 1."]
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert len(rows) == len(table.cells) == 8
    for row, cell in zip(rows, table.cells, strict=True):
        assert row.pop("metric") == "perturbed"
        assert row == {key: "" if value is None else str(value) for key, value in cell.items()}
        assert (float(row["value"]) if row["value"] else None) == cell["value"]
    assert any(row["value"] == "" for row in rows)
    assert all(cell["flags"] is None for cell in table.cells)  # records without health; test_flags.py has the others


def test_full_csv_has_every_metric_and_full_json_the_seed(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(), "queries", "full")
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    for row, cell in zip(rows, table.cells, strict=True):
        assert float(row["value"]) == float(row["queries"]) == cell["value"]
        assert float(row["asr_low"]) == cell["scores"]["asr"]["low"]
        assert int(row["perturbed_n"]) == cell["scores"]["perturbed"]["n"]
        assert int(row["seed"]) == cell["seed"]
        assert float(row["aua"]) == pytest.approx(float(row["clean"]) * (1 - float(row["asr"])))
    assert json.loads(render(table, "json"))["cells"][0]["seed"] == 1


def test_no_cell_of_csv_is_a_formula_and_numbers_stay() -> None:
    cells = ({"encoder": "=1+1", "@task": "+mr", "mean": -3.2, "low": None},)
    table = dataclasses.replace(small(("a", "b")), cells=cells)
    assert render(table, "csv").splitlines() == ["metric,encoder,'@task,mean,low", f"{table.metric},'=1+1,'+mr,-3.2,"]


def test_json_has_null_for_a_number_that_is_not_finite() -> None:
    cell = {"encoder": "a", "value": float("nan"), "scores": {"asr": {"low": float("-inf"), "high": 0.5, "n": 3}}}
    table = dataclasses.replace(small(("a", "b")), cells=(cell, {"pair": ("a", float("inf"))}))
    found = json.loads(render(table, "json"), parse_constant=pytest.fail)["cells"]
    assert found[0] == {"encoder": "a", "value": None, "scores": {"asr": {"low": None, "high": 0.5, "n": 3}}}
    assert found[1] == {"pair": ["a", None]}


def test_queries_are_no_share(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(), "queries")
    assert "Shares are fractions of 1." not in json.loads(render(table, "json"))["notes"]
    assert render(table, "markdown").startswith("**Average queries ↑ (higher is more robust; bold: the highest")


def test_seconds_are_shown_to_the_hundredth(make_run: MakeRun) -> None:
    rows = pipe_rows(render(build_attack_table(make_run(), "seconds"), "markdown"))
    shown = [cell.strip("* ") for row in rows[2:] for cell in row[2:]]
    assert shown and all(re.fullmatch(r"\d\.\d\d", cell) for cell in shown)


@pytest.mark.parametrize("fmt", get_args(formats.Format))
def test_no_format_hands_on_what_controls_a_terminal_or_turns_letters(fmt: str) -> None:
    hostile = "a\x1b[2J\x9b\u202eb\u2028\ud800"
    table = small((hostile, Number(0.5, True, 4)), header=("Attack", hostile), notes=(hostile,))
    table = dataclasses.replace(table, cells=({"attack": hostile, "flags": None},))
    text = render(table, fmt)
    assert text.encode() and not {*"\x1b\x9b\u202e\u2028\ud800"} & {*text}
    if fmt == "json":
        assert json.loads(text)["cells"][0]["attack"] == hostile


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(StoreError):
        render(small(), "markdwon")


# --------------------------------------------------------------------------------------------------- always the same


def every_text(store: RunStore) -> list[str]:
    results = Results.of(store)
    tables = [build_attack_table(results, layout=layout) for layout in ("paper", "full")]
    return [render(table, fmt, True) for table in tables for fmt in get_args(formats.Format)]


def test_a_run_done_in_another_order_on_another_day_makes_the_same_bytes(make_run: MakeRun) -> None:
    store = make_run(started="2026-01-01", seconds=1.0, python="3.11", platform="a")
    other = make_run(name="elsewhere", done=lambda job: False)
    plan = other.plan()
    assert plan is not None
    for job in reversed(plan.jobs):
        finish(other, job, started="2027-12-31", seconds=99.0, python="3.13", platform="b", device="cuda")
    stranger = plan.jobs[0].model_copy(update={"key": "0" * 64})
    finish(other, stranger)  # left behind by an earlier version of the suite
    assert every_text(store) == every_text(other)
