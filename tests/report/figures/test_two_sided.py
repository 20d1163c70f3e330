"""The figure of robustness against sensitivity: marks at the table's numbers, controls in grey."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.measures import MeasureContext
from rbench.report.figures import style, two_sided
from rbench.report.figures.two_sided import Options, TwoSidedFigure, list_controls
from rbench.schema import Choice
from tests.measures.blind_victims import blinded as blinded
from tests.measures.blind_victims import stored, table
from tests.measures.conftest import victims as victims
from tests.report.figures.printed import print_figure

SUITE = Path(__file__).parents[3] / "suites" / "two-sided.yaml"
ASKED = {"evaluate": (Choice(name="contrast"), Choice(name="two_sided"))}


@pytest.fixture(autouse=True)
def control(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder `two` is a control: the RUN that is made by hand has no file of an encoder."""
    monkeypatch.setattr(two_sided, "list_controls", lambda plan: ["two"])


def test_marks_stand_at_the_numbers_of_the_table_and_controls_are_grey(blinded: MeasureContext) -> None:
    figure = TwoSidedFigure().draw(Options(), stored(blinded, **ASKED))
    (axes,) = figure.axes
    cells = {cell["encoder"]: cell for cell in table(blinded).cells if cell["held"] is not None}
    marks = {str(found.get_label()).partition(",")[0]: found[0] for found in axes.containers}
    assert marks.keys() == cells.keys() == {"one", "two"}
    for name, line in marks.items():
        point = (100 * cells[name]["held"], 100 * cells[name]["followed"])
        assert (line.get_xdata()[0], line.get_ydata()[0]) == pytest.approx(point)
        assert (line.get_color() == style.MUTED) is (name == "two")
    bars = axes.containers[0].lines[2]
    (low, _), (high, _) = bars[0].get_segments()[0]
    assert (low, high) == pytest.approx((100 * cells["one"]["held_low"], 100 * cells["one"]["held_high"]))
    assert "two" in figure.get_supxlabel()


@pytest.mark.parametrize("width", ["column", pytest.param("page", marks=pytest.mark.nightly)])
def test_it_is_read_at_the_width_of_a_paper(blinded: MeasureContext, width: str) -> None:
    drawn, _ = print_figure(lambda: TwoSidedFigure().draw(Options(), stored(blinded, **ASKED)), width)
    assert len(drawn.axes) == 1


def test_a_run_without_such_an_attack_is_refused(blinded: MeasureContext) -> None:
    with pytest.raises(StoreError):
        TwoSidedFigure().draw(Options(attack="bae"), stored(blinded, **ASKED))


def test_controls_are_what_their_files_call_so(tmp_path: Path) -> None:
    planned = api.plan(SUITE, api.Options(profile="mini", out=tmp_path))
    assert list_controls(planned.plan) == ["mini-bert-random", "mini-constant"]
