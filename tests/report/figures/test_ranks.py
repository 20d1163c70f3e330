"""The figure of the ranking: a mark for each model at the numbers of the table `ranks`, both with intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rbench.errors import StoreError
from rbench.report.figures.ranks import Options, RanksFigure
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.table import FLAGGED
from rbench.verdicts import ranks
from tests.measures.words_runs import WORDS_NEEDED


def test_one_panel_has_the_means_of_the_table_with_intervals(make_run: Callable[..., RunStore]) -> None:
    results = Results.of(make_run())
    cells: list[dict[str, Any]] = [dict(cell) for cell in ranks.build_table(results).cells]
    figure = RanksFigure().draw(Options(), results)
    (axes,) = figure.axes
    marks = {str(mark.get_label()): mark for mark in axes.containers}
    assert len(results.plan.suite.attacks) * len(results.plan.suite.tasks) > 1 and len(marks) == len(cells)
    for cell in cells:
        points, _, bars = marks[cell["encoder"]].lines
        assert points.get_xdata()[0] == pytest.approx(100 * cell["value"])
        assert points.get_ydata()[0] == pytest.approx(100 * cell["clean"])
        (across,), (up,) = (bar.get_segments() for bar in bars)
        assert across[:, 0] == pytest.approx([100 * cell["low"], 100 * cell["high"]])
        assert up[0, 1] < 100 * cell["clean"] < up[1, 1]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Accuracy under attack (%)", "Clean accuracy (%)")
    flags = sum(text.get_text() == FLAGGED for text in axes.texts)
    assert flags == sum(cell["place"] is None for cell in cells)


def test_clean_accuracy_of_one_task_has_its_texts(words_run: RunStore) -> None:
    results = Results.of(words_run)
    for entry in ranks.rank_models(results, compared=False).entries:
        assert entry.name in WORDS_NEEDED and entry.clean is not None
        assert entry.clean.low is not None and entry.clean.high is not None


def test_nothing_to_draw_is_refused(make_run: Callable[..., RunStore]) -> None:
    with pytest.raises(StoreError):
        RanksFigure().draw(Options(), Results.of(make_run(done=lambda job: False)))
