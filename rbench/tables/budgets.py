"""Reads budget curves from the outcomes of a RUN: one for each cell of its grid, pooled over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbench.errors import StoreError
from rbench.score.budget import By, Curve, Spent, shared_top
from rbench.tables.aggregate import Cell, Grid
from rbench.tables.formats import unknown
from rbench.tables.results import Results

_SPENT: dict[By, str] = {"queries": "num_queries", "words": "num_words_changed", "share": "perturbed_share"}
"""The field of an outcome that a budget limits."""


@dataclass(frozen=True)
class Panel:
    """The curves of one attack on one task, of all victims. Their areas are over the same range."""

    attack: str
    task: str
    curves: tuple[tuple[Cell, Curve], ...]
    """Cells of which at least one seed is done, in the suite's order."""
    top: float
    """Where the range of budgets ends."""


def panels(
    results: Results,
    grid: Grid,
    by: By,
    *,
    attack: str | None = None,
    task: str | None = None,
    most: float | None = None,
) -> list[Panel]:
    """Return the panels of a RUN, attack by attack. Those of which nothing is done are left out.

    Args:
        attack, task: the only ones to read; None: all.
        most: where the range of budgets ends; None: at the last `Curve.most` of the panel.

    Raises:
        StoreError: there is no such attack or task, nothing is done, or outcomes are missing or damaged.
    """
    wanted = _chosen("attack", attack, grid.attacks), _chosen("task", task, grid.tasks)
    found = []
    for one in wanted[0]:
        for on in wanted[1]:
            cells = [cell for cell in grid.cells.values() if (cell.attack, cell.task) == (one, on) and cell.present]
            curves = tuple((cell, curve(results, cell, by)) for cell in cells)
            if curves:
                found.append(Panel(one, on, curves, shared_top(curve for _, curve in curves) if most is None else most))
    if not found:
        raise StoreError(f"no attack of {results.root} is done, so there is no budget curve yet. Run the suite first.")
    return found


def curve(results: Results, cell: Cell, by: By) -> Curve:
    """Return a cell's curve from the outcomes of the seeds that are done. Raises StoreError where they are missing."""
    spent: list[Spent] = []
    done = [run for run in cell.runs if run.tally is not None]
    for run in done:
        seen = results.observations(run.job)
        amounts = np.nan_to_num(getattr(seen, _SPENT[by])[seen.attacked]).tolist()
        spent += map(Spent, seen.unit[seen.attacked].tolist(), seen.fell[seen.attacked].tolist(), amounts)
    return Curve(by, tuple(spent), cell.repeats)


def _chosen(what: str, name: str | None, there: Sequence[str]) -> Sequence[str]:
    if name is not None and name not in there:
        raise unknown(what, name, there)
    return there if name is None else (name,)
