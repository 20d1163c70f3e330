"""Reads budget curves and the series of trainings, as the figures `budget` and `curves` draw them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from rbench.figures.curves import Options, grouped_series, stored_trainings
from rbench.report.data import BudgetCurve, CurvePoint, SeriesLine
from rbench.score.budget import START, Curve
from rbench.tables import Results
from rbench.tables.aggregate import grid
from rbench.tables.budgets import panels

MOST = 80
"""The most steps of a curve. More could not be told apart on a screen."""
_BYS: tuple[Literal["queries", "words"], ...] = ("queries", "words")


def budgets(results: Results) -> Iterator[BudgetCurve]:
    """Yield the curve of each cell, by queries and by words. Raises StoreError where outcomes are missing."""
    of = grid(results)
    for by in _BYS:
        for panel in panels(results, of, by):
            for cell, curve in panel.curves:
                if curve.n and not of.flags.hiding(cell.jobs):
                    yield BudgetCurve(by=by, key=cell.key, n=curve.n, points=tuple(_points(curve, panel.top)))


def _points(curve: Curve, top: float) -> Iterator[CurvePoint]:
    """Yield the curve at its start, at its steps or evenly chosen ones of them, and at the end of its panel."""
    steps = [step for step in curve.steps if START[curve.by] < step < top]
    if len(steps) > MOST:
        steps = [steps[round(i * (len(steps) - 1) / (MOST - 1))] for i in range(MOST)]
    for x in (START[curve.by], *steps, top):
        score = curve.at(x)
        yield CurvePoint(x=x, y=score.value, low=score.low, high=score.high)


def series(results: Results) -> Iterator[SeriesLine]:
    """Yield what trainings measured. Raises StoreError where the RUN trained no encoder, or no record has a series."""
    found = stored_trainings(Options(), results)
    grouped = grouped_series(Options(), list(dict.fromkeys(name for training in found for name in training.names)))
    for training in found:
        for group, names in grouped.items():
            for name in names:
                steps, values = training.curve(name)
                if steps:
                    yield SeriesLine(
                        training=training.title, group=group, name=name, steps=tuple(steps), values=tuple(values)
                    )
