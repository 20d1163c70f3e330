"""The figure of quality against robustness: marks at the tables' numbers, and the front joined."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

from rbench.errors import StoreError
from rbench.report.figures.front import FrontFigure, Options, find_front
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from tests import reference
from tests.tables.conftest import make_run as make_run


@pytest.fixture(scope="module")
def dose() -> Results:
    return Results.of(RunStore(reference.run("dose-response-part1")))


def marks(axes: Axes) -> dict[str, tuple[float, float]]:
    """The point of each mark, by its label."""
    return {
        str(found.get_label()): (float(found[0].get_xdata()[0]), float(found[0].get_ydata()[0]))
        for found in axes.containers
    }


def joined(axes: Axes) -> list[tuple[float, float]]:
    (line,) = (line for line in axes.get_lines() if line.get_label() == "front")
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


@pytest.mark.parametrize(("quality", "robustness"), [("sts", "asr"), ("clean", "aua")])
def test_a_mark_for_each_encoder_and_the_front(dose: Results, quality: str, robustness: str) -> None:
    figure = FrontFigure().draw(Options(quality=quality, robustness=robustness, attack="pwws"), dose)  # type: ignore[arg-type]
    assert [axes.get_title() for axes in figure.axes] == ["pwws"]
    across = {(c["encoder"], c["task"]): c for c in build(dose, robustness).cells if c["attack"] == "pwws"}  # type: ignore[arg-type]
    up = {(c["encoder"], c.get("task")): c for c in build(dose, quality).cells}  # type: ignore[arg-type]
    for axes, task in zip(figure.axes, ("mr",), strict=True):
        expected = {
            encoder: (
                100 * across[encoder, task]["value"],
                100 * up[encoder, None if quality == "sts" else task]["value"],
            )
            for encoder in dose.plan.suite.encoders
        }
        assert marks(axes) == {name: pytest.approx(point) for name, point in expected.items()}
        sign = 1 if robustness == "asr" else -1
        best = {
            point
            for point in expected.values()
            if not any(sign * o[0] <= sign * point[0] and o[1] >= point[1] and o != point for o in expected.values())
        }
        assert {(round(x, 9), round(y, 9)) for x, y in joined(axes)} == {(round(x, 9), round(y, 9)) for x, y in best}
    bars = figure.axes[0].containers[0].lines[2]
    assert len(bars) == 2, "both intervals"
    (low, _), (high, _) = bars[0].get_segments()[0]
    cell = across[dose.plan.suite.encoders[0], "mr"]
    assert (low, high) == pytest.approx((100 * cell["low"], 100 * cell["high"]))
    assert "95% intervals" in figure.get_supxlabel() and f"n of {robustness.upper()}" in figure.get_supxlabel()


def test_clean_accuracy_where_there_is_no_sts(make_run: Callable[..., RunStore]) -> None:
    results = Results.of(make_run())
    assert FrontFigure().draw(Options(), results).axes[0].get_ylabel() == "Clean accuracy (%)"
    for options in (Options(quality="sts"), Options(attack="bae")):
        with pytest.raises(StoreError):
            FrontFigure().draw(options, results)


def test_an_encoder_without_one_of_the_numbers_is_named(make_run: Callable[..., RunStore]) -> None:
    results = Results.of(make_run())
    others = [job for job in results.plan.jobs if job.parts[0] == "bert_b" and job.parts[1] == "mr"]
    empty = {"succeeded": 0, "failed": 0, "skipped": 20, "errored": 0, "total": 20}
    for job in others:
        old = results.standing.records[job.key]
        results.standing.records[job.key] = old.model_copy(update={"counts": {**old.counts, **empty}})
    figure = FrontFigure().draw(Options(task="mr"), results)
    assert all("bert_b" not in marks(axes) for axes in figure.axes)
    assert "Without one of the two numbers: bert_b." in " ".join(figure.get_supxlabel().split())


WHOLE = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(WHOLE, WHOLE), max_size=12))
def test_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    found = find_front(points)
    for i, (x, y) in enumerate(points):
        better = [p for p in points if p[0] >= x and p[1] >= y and (p[0] > x or p[1] > y)]
        assert (i in found) is (not better)
    assert len(found) == len(set(found)) and bool(found) is bool(points)
    across = [points[i][0] for i in found]
    assert across == sorted(across)
    assert [points[i][1] for i in found] == sorted((points[i][1] for i in found), reverse=True)
