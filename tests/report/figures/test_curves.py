"""Tests the curves of trainings: RUNs made by hand, whose records hold series."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from rbench.errors import StoreError
from rbench.report.figures import curves, style
from rbench.schema import Health, MeasuredStep
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests.report.figures.training_runs import HEALTH, TERMS, write_run
from tests.tables.flagged_runs import make_record

Make = Callable[..., RunStore]


def draw(store: RunStore, **options: Any) -> list[Axes]:
    with style.applied():
        return curves.CurvesFigure().draw(curves.Options.model_validate(options), Results.of(store)).axes


def title(axes: Axes) -> str:
    (text,) = axes.texts
    return text.get_text()


def test_a_long_title_does_not_widen_its_column(tmp_path: Path) -> None:
    panels = draw(write_run(tmp_path), encoder=["below", "above"])
    panels[4].texts[0].set_text("a long title " * 9)
    figure = panels[0].get_figure()
    assert figure is not None
    figure.draw_without_rendering()
    widths = [axes.get_position().width for axes in panels[:4]]
    assert max(widths) < 1.1 * min(widths)


def test_a_panel_without_a_series_is_not_drawn(tmp_path: Path) -> None:
    loss = Health(series=tuple(point.model_copy(update={"values": {"loss": 1.0}}) for point in HEALTH.series))
    store = write_run(tmp_path)
    job = next(job for job in Results.of(store).plan.jobs if job.parts == ("noise",))
    store.write_record(make_record(job, loss))
    shown = [axes.get_visible() for axes in draw(store)]
    assert shown == [True] * 8 + [True, False, False, False]


def test_each_training_has_a_row_and_each_group_a_column(tmp_path: Path) -> None:
    panels = draw(write_run(tmp_path, flagged="above"))
    assert len(panels) == 3 * 4
    assert [title(axes) for axes in panels[::4]] == ["below", "above (flagged: saturated)", "noise"]
    assert [axes.get_ylabel() for axes in panels[:4]] == [*curves.GROUPS.values()]
    shown = [[str(line.get_label()) for line in axes.lines] for axes in panels[:4]]
    assert shown == [
        ["loss", "contrastive", "replaced", "contrastive loss", "loss at chance"],
        ["contrastive share", "replaced share"],
        ["dropout cosine"],
        ["top-1", "top-1 at chance"],
    ]


def test_lines_are_the_records_series_and_chance_is_a_grey_one(tmp_path: Path) -> None:
    for axes in draw(write_run(tmp_path)):
        for line in axes.lines:
            value = TERMS[str(line.get_label())]
            assert [*line.get_xdata()] == [1, 4, 9] and [*line.get_ydata()] == [value, value / 4, value / 9]
        chance = [line for line in axes.lines if str(line.get_label()).endswith(" at chance")]
        others = [line for line in axes.lines if line not in chance]
        assert all(line.get_color() == style.MUTED and line.get_marker() in ("", "None") for line in chance)
        for channel in ("get_color", "get_marker", "get_linestyle"):
            assert len({getattr(line, channel)() for line in others}) == len(others)


def test_a_value_that_was_not_measured_at_a_step_has_no_point_there(tmp_path: Path) -> None:
    first, *others = HEALTH.series
    gap = Health(series=(first, *(p.model_copy(update={"values": {"loss": 1.0}}) for p in others)))
    (line,) = (x for x in draw(write_run(tmp_path, rest=gap))[3].lines if x.get_label() == "top-1")
    assert [*line.get_xdata()] == [1]


def test_options_choose_encoders_groups_and_single_series(tmp_path: Path) -> None:
    panels = draw(write_run(tmp_path), encoder="above", series=["delta ratio", "top-1"])
    assert [axes.get_ylabel() for axes in panels] == ["delta ratio", "Top-1"]
    assert title(panels[0]) == "above"
    assert [line.get_label() for line in panels[0].lines] == ["delta ratio"]


def test_trainings_without_a_group_have_nothing_to_draw(tmp_path: Path) -> None:
    odd = Health(series=(MeasuredStep(step=1, values={"odd": 1.0}),))
    store = write_run(tmp_path / "odd", rest=odd)
    with pytest.raises(StoreError):
        draw(store)
    assert len(draw(store, series="odd")) == 3


def test_many_trainings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_MOST", 2)
    with pytest.raises(StoreError) as caught:
        draw(write_run(tmp_path))
    assert "[below]" in str(caught.value)
