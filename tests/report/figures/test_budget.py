"""The figure of budget curves: what is drawn is what the curves say."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest
from matplotlib.axes import Axes

from rbench.errors import StoreError
from rbench.measures.budget import CurveOptions
from rbench.report.figures.budget import BudgetFigure
from rbench.schema import Outcome
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests.tables.builders import find_attack_jobs
from tests.tables.conftest import make_outcomes, make_suite
from tests.tables.conftest import make_run as make_run

MakeRun = Callable[..., RunStore]


def attacked(store: RunStore, attack: str, encoder: str, task: str) -> list[Outcome]:
    outcomes = [o for job in find_attack_jobs(store, attack, encoder, task) for o in make_outcomes(job)]
    return [o for o in outcomes if o.status in ("succeeded", "failed")]


def title(axes: Axes) -> str:
    return axes.get_title().replace("\n", " ")


def test_a_panel_for_each_attack_and_task_with_a_curve_for_each_encoder(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    figure = BudgetFigure().draw(CurveOptions(), Results.of(store))
    panels = figure.axes
    assert [title(axes) for axes in panels] == [
        *("pwws, mr", "pwws, mini_nli"),
        *("bertattack[max_words=10], mr", "bertattack[max_words=10], mini_nli"),
    ]
    for axes in panels:
        attack, _, task = title(axes).rpartition(", ")
        assert axes.get_xscale() == "log" and len(axes.collections) == 2, "a band for each"
        assert [line.get_label() for line in axes.get_lines()] == ["minilm", "bert_b"]
        for line in axes.get_lines():
            there = attacked(store, attack, str(line.get_label()), task)
            assert line.get_drawstyle() == "steps-post"
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
                fell = sum(o.status == "succeeded" and o.num_queries <= x for o in there)
                assert y == pytest.approx(100 * fell / len(there))
            assert (line.get_xdata()[0], line.get_ydata()[0]) == (1, 0)
            assert line.get_ydata()[-1] == pytest.approx(100 * sum(o.status == "succeeded" for o in there) / len(there))
        both = [o for encoder in ("minilm", "bert_b") for o in attacked(store, attack, encoder, task)]
        fewest = min(o.num_queries for o in both if o.status == "succeeded")
        assert axes.get_xlim()[0] == pytest.approx(max(1, fewest / 2)), "no space for budgets with which none falls"
    figure.savefig(BytesIO(), format="svg")


def test_options(make_run: MakeRun) -> None:
    results = Results.of(make_run(make_suite(finetune=("probe", "clean")), sealed=True))
    figure = BudgetFigure().draw(CurveOptions(by="share", attack="pwws", task="mr", most=0.5), results)
    (axes,) = figure.axes
    assert (axes.get_title(), axes.get_xscale(), axes.get_xlabel()) == ("pwws", "linear", "Share of words changed (%)")
    assert max(axes.get_lines()[0].get_xdata()) == 50
    assert [line.get_label() for line in axes.get_lines()][:2] == ["minilm, probe", "minilm, clean"]
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(looks) == 4


def test_nothing_to_draw(make_run: MakeRun) -> None:
    with pytest.raises(StoreError):
        BudgetFigure().draw(CurveOptions(), Results.of(make_run(done=lambda job: False)))
