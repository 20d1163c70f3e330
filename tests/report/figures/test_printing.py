"""Tests figures for a place of a given width in a paper: every kind, in a column, a page, and a narrow column."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from rbench import api
from rbench.config.registry import Registry
from rbench.errors import StoreError
from rbench.measures.budget import CurveOptions
from rbench.report.figures import alignment, budget, curves, dose, front, noise, queries, ranks, space, style
from rbench.report.figures.style import FigureSheet, printing
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests import reference
from tests.cli.conftest import Shell
from tests.report.figures import dose_runs, training_runs
from tests.report.figures.printed import WIDTHS, print_figure
from tests.tables.conftest import make_suite

MakeRun = Callable[..., RunStore]
LONG = ("all-MiniLM-L6-v2 [pooling=mean,max_length=128]", "a-second-encoder-with-a-name-of-fifty-letters-or-more")


@pytest.mark.parametrize(
    "width", [pytest.param(one, marks=() if one == "200" else pytest.mark.nightly) for one in WIDTHS]
)
def test_figures_of_attacks_are_read_at_their_width(width: str, make_run: MakeRun) -> None:
    results = Results.of(make_run(make_suite(encoders=LONG), sealed=True))
    options = queries.Options(panels="task", scale="log")
    drawn, sheet = print_figure(lambda: queries.QueriesFigure().draw(options, results), width)
    assert len(drawn.axes) == 4 and "95% intervals" in " ".join(sheet.caption)
    print_figure(lambda: budget.BudgetFigure().draw(CurveOptions(), results), width)
    _, sheet = print_figure(lambda: front.FrontFigure().draw(front.Options(quality="clean"), results), width)
    assert "no other one dominates" in sheet.caption[0]
    drawn, _ = print_figure(lambda: ranks.RanksFigure().draw(ranks.Options(), results), width)
    assert len(drawn.axes) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_trainings_are_read_at_their_width(width: str, tmp_path: Path) -> None:
    trained = Results.of(training_runs.write_run(tmp_path / "trained"))
    drawn, sheet = print_figure(lambda: curves.CurvesFigure().draw(curves.Options(encoder=("below",)), trained), width)
    assert len(drawn.axes) == 4 and "no interval" in sheet.caption[0]
    dosed = Results.of(dose_runs.write_run(tmp_path / "dosed"))
    print_figure(lambda: dose.DoseFigure().draw(dose.Options(), dosed), width)


@cache
def committed(name: str) -> Results:
    return Results.of(RunStore(reference.run(name)))


@pytest.mark.nightly
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "kind", "panels"),
    [
        ("robustsentembed-figure3-local", alignment.AlignmentFigure, 1),
        ("adcl-figure3-local", space.SpaceFigure, 4),
        ("noise-local", noise.NoiseFigure, 8),
    ],
)
def test_figures_of_measures_are_read_at_their_width(name: str, kind: Any, panels: int, width: str) -> None:
    drawn, _ = print_figure(lambda: kind().draw(kind.Options(), committed(name)), width)
    assert len(drawn.axes) == panels


def test_every_kind_of_figure_is_read_here() -> None:
    there = {"queries", "budget", "front", "curves", "dose", "alignment", "space", "noise", "ranks", "words"}
    elsewhere = {"transfer", "two_sided"}  # tests/measures/test_transfer.py, test_two_sided.py
    assert {*Registry().names("figures")} == there | elsewhere


def test_a_caption_lies_beside_it_with_the_run_n_seeds_and_intervals(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(make_suite(seeds=(0, 3))).root
    words = ("figure", run, "--kind", "queries", "--width", "column", "--out", tmp_path / "a.pdf")
    result = Shell()(*words)
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [str(tmp_path / "a.pdf"), str(tmp_path / "a-caption.tex")]
    comment, caption = (tmp_path / "a-caption.tex").read_text().splitlines()
    assert comment.startswith("%") and "219 points" in comment
    for part in ("Average queries against", r"95\% intervals", f"RUN {run.name} of", "seeds 0, 3"):
        assert part in caption


def test_files_of_a_width_leave_those_without_one(make_run: MakeRun) -> None:
    run = make_run().root
    (plain,) = api.write_figure(run, "queries", formats=["svg"])
    before = plain.read_bytes()
    written = api.write_figure(run, "queries", formats=["svg"], width=300)
    names = ["queries-300pt.svg", "queries-300pt-caption.tex"]
    assert written == [run / "figures" / name for name in names]
    assert plain.read_bytes() == before


@pytest.mark.parametrize("width", ["wide", "0", "90", "nan", "5000"])
def test_a_width_that_is_none_is_refused(width: str, make_run: MakeRun) -> None:
    with pytest.raises(StoreError):
        api.figure(make_run().root, "queries", width=width)


def test_a_figure_taller_than_a_page_is_refused_with_the_remedy() -> None:
    titles = [f"attack {i}" for i in range(20)]
    with style.applied(sheet=FigureSheet.asked("column")), pytest.raises(StoreError):
        style.panels(titles, columns=3)
    with style.applied(sheet=FigureSheet.asked("page")):
        figure, panels = style.panels(titles, columns=3)
    assert len(panels) == 20 and figure.get_figheight() <= printing.TALLEST_FIGURE


@pytest.mark.parametrize("count", [3, 4, 5])
def test_panels_below_each_other_fit_an_article_with_their_caption(count: int) -> None:
    text_height, caption = 550 / 72.27, 100 / 72.27  # of LaTeX's class article, and of eight lines
    with style.applied(sheet=FigureSheet.asked("column")):
        figure, _ = style.panels([f"attack {i}" for i in range(count)], columns=3, least=2.0)
    assert figure.get_figheight() + caption <= text_height


def test_a_figure_of_ones_own_has_the_width_and_the_letters() -> None:
    def draw() -> Figure:
        figure = Figure(figsize=(9, 4))
        axes = figure.subplots()
        axes.plot([1, 1000000], [1, 2])
        axes.set_xlabel("A label that is far longer than a narrow column of a paper is wide " * 2, fontsize=14)
        axes.text(1, 1.5, "tiny", fontsize=3)
        figure.set_layout_engine("constrained")
        return figure

    drawn, _ = print_figure(draw, "200")
    assert "\n" in drawn.axes[0].get_xlabel()


def test_texts_are_as_wide_as_they_are_measured() -> None:
    drawn = Figure()
    for text in ("iiiiii", "WWWWWW", "all-MiniLM-L6-v2"):
        width = drawn.text(0, 0, text, fontsize=7, parse_math=False).get_window_extent().width / drawn.dpi
        assert printing.text_width(text, 7) == pytest.approx(width, rel=0.1)
        assert printing.text_width(printing.wrap_text(text * 20, 1.0), 7) <= 1.0


def test_list_shows_the_options_of_a_figure_and_not_its_source() -> None:
    shown = Shell()("list", "figures", "budget").stdout
    assert "import" not in shown and "def draw" not in shown
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in shown.splitlines() if "\t" in line}
    assert {*rows} == {"--option", *CurveOptions.model_fields}
    assert rows["by"][0] == "queries" and "queries or words or share" in rows["by"][1]
    assert rows["most"] == ["null", rows["most"][1]] and "range of budgets ends" in rows["most"][1]
