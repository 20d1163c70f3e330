"""Lays out tables of one metric of attacks, or of several side by side, with tasks or attacks in columns.

paper      A group of rows for each attack, tasks in columns, and their average. Where all metrics are of victims, these
           are the rows.
by-attack  A group of rows for each task, attacks in columns, and their average.
means      Attacks in columns, and their average. Each entry is the mean over all tasks.

A metric of victims, such as clean accuracy, has one column where attacks are in columns. A mean has no value where one
of its parts has none. Averages over attacks are not tested for bold: these are of the same examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from rbench.errors import StoreError
from rbench.metrics import Metric
from rbench.tables.aggregate import ANY, NO_ATTACK, Cell, Grid
from rbench.tables.any_attack import NONE, AnyAttack
from rbench.tables.layouts import definitions, described
from rbench.tables.notes import interval_note, notes, sizes
from rbench.tables.table import Contest, Entry, Meaning, Number, Table, average, best_of, groups_of

LAYOUTS = ("by-attack", "means")
AVERAGE = "Avg."
JOINED = "Those of means over tasks are joined from the tasks' own, whose texts are independent (Zou and Donner 2008)."


class Column(NamedTuple):
    """A column of numbers."""

    metric: Metric
    head: str
    tasks: tuple[str, ...]
    """Those over which an entry is a mean; empty: the task of the row."""
    attacks: tuple[str, ...]
    """The same of attacks."""


class _Row(NamedTuple):
    task: str
    attack: str
    encoder: str
    finetune: str | None


def table(grid: Grid, metrics: Sequence[str], layout: str, together: AnyAttack = NONE) -> Table:
    """Build the table. The first metric is what `value` means in the cells for programs.

    Raises StoreError where no task has all metrics.
    """
    asked = [grid.metrics[name] for name in metrics]
    before = layout == "paper" and all(metric.of == "victims" for metric in asked)
    whole = grid.of_victims() if before else together.beside(grid)
    tasks = tuple(task for task in grid.tasks if all(task in grid.tasks_of(metric) for metric in asked))
    if not tasks:
        raise StoreError(f"no task of this suite has {' and '.join(one.about.words for one in asked)}.")
    attacks = whole.attacks if before or any(metric.together for metric in asked) else grid.attacks
    columns = [column for metric in asked for column in _columns(metric, layout, tasks, attacks, grid)]
    rows, contests = _rows(whole, layout, tasks, attacks, columns)
    several = {"by-attack": "Task", **({} if before else {"paper": "Attack"})}
    names = [*([several[layout]] if layout in several else []), "Encoder", *(["Fine-tuning"] if grid.several else [])]
    above = [metric.about.column if len(asked) > 1 and head else "" for metric, head, *_ in columns]
    heads = [head or metric.about.column for metric, head, *_ in columns]
    cells = [cell for cell in whole.cells.values() if cell.task in tasks]
    over = [f"Means over {', '.join(tasks)}."] if layout == "means" and len(tasks) > 1 else []
    return Table(
        metric=metrics[0],
        layout="paper" if layout == "paper" else "by-attack" if layout == "by-attack" else "means",
        header=(*names, *heads),
        above=(*("" for _ in names), *above) if any(above) else (),
        rows=tuple(rows),
        groups=groups_of(rows) if layout in several else frozenset(),
        cells=tuple(
            described(cell, metrics[0], whole)
            | ({"attack": NO_ATTACK} if before else {})
            | ({"scores": {one.name: cell.told(one.name) for one in asked if cell.has(one.name)}} if asked[1:] else {})
            for cell in cells
        ),
        notes=notes(
            grid,
            tasks,
            (*over, *definitions(asked), sizes(grid, metrics[0], tasks), *together.notes(grid, tasks)),
        ),
        interval=" ".join([interval_note(grid, metrics[0]), *([JOINED] if layout == "means" else [])]),
        flags=grid.flags.listed(job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs),
        shows=_shown(asked, layout, len(tasks), by_attack=not before),
        contests=tuple(contests),
        best="the most robust" if asked[1:] else "",
    )


def _shown(asked: Sequence[Metric], layout: str, tasks: int, *, by_attack: bool) -> Meaning:
    """Return what the caption says of the metrics; `by_attack`: whether the layout paper has rows for each attack."""
    among = {"paper": "of each attack and column", "by-attack": "of each task and column", "means": "of each column"}
    first = replace(asked[0].about, among=among[layout if by_attack else "means"])
    over = f"means over {tasks} tasks" if layout == "means" and tasks > 1 else ""
    if not asked[1:]:
        return replace(first, title=f"{first.title}, {over}") if over else first
    names = [first.title, *(one.about.words for one in asked[1:])]
    arrows = (one.about.arrow if one.about.best else "" for one in asked)
    titles = [f"{name} {arrow}".strip() for name, arrow in zip(names, arrows, strict=True)]
    unit = ", %" if all(one.about.percent for one in asked) else ""
    title = f"{', '.join(titles[:-1])} and {titles[-1]}{unit}"
    return replace(first, title=title, definition=over or {"by-attack": "by attack", "paper": "by task"}[layout])


def _columns(metric: Metric, layout: str, tasks: tuple[str, ...], attacks: Sequence[str], grid: Grid) -> list[Column]:
    if layout == "paper":
        found = [Column(metric, task, (task,), ()) for task in tasks]
        return [*found, *([Column(metric, AVERAGE, tasks, ())] if len(tasks) > 1 else [])]
    over = tasks if layout == "means" else ()
    if metric.of == "victims":
        return [Column(metric, "", over, grid.attacks[:1])]
    found = [Column(metric, attack, over, (attack,)) for attack in attacks if attack != ANY or metric.together]
    return [*found, *([Column(metric, AVERAGE, over, tuple(grid.attacks))] if len(grid.attacks) > 1 else [])]


def _rows(
    whole: Grid, layout: str, tasks: Sequence[str], attacks: Sequence[str], columns: Sequence[Column]
) -> tuple[list[tuple[Entry, ...]], list[Contest]]:
    groups = {"paper": [("", attack) for attack in attacks], "by-attack": [(task, "") for task in tasks]}
    rows: list[tuple[Entry, ...]] = []
    contests: list[Contest] = []
    finetunes: Sequence[str | None] = whole.finetunes if whole.several else (None,)
    for task, attack in groups.get(layout, [("", "")]):
        there = [_Row(task, attack, encoder, finetune) for encoder in whole.encoders for finetune in finetunes]
        victims = [row for row in there if any(_cells(whole, row, column) for column in columns)]
        first = len([part for part in (task, attack) if part]) + 1 + whole.several
        numbers: list[list[Number | None]] = []
        for at, column in enumerate(columns, start=first):
            of = [_number(whole, row, column) for row in victims]
            tested = len(column.attacks) < 2
            numbers.append(best_of(of, column.metric.about.best) if tested else of)
            keys = (tuple(cell.key for cell in _cells(whole, row, column)) for row in victims)
            contests += [Contest(column.metric.name, at, tuple(enumerate(keys, len(rows))))] if tested else []
        for i, row in enumerate(victims):
            names = [*(part for part in (row.task, row.attack) if part), row.encoder]
            names += [row.finetune] if row.finetune is not None else []
            rows.append((*names, *(column[i] for column in numbers)))
    return rows, contests


def _places(row: _Row, column: Column) -> Iterable[tuple[str, str]]:
    """Return attack and task of the cells of an entry."""
    tasks, attacks = column.tasks or (row.task,), column.attacks or (row.attack,)
    return [(attack, task) for task in tasks for attack in attacks]


def _cells(grid: Grid, row: _Row, column: Column) -> list[Cell]:
    found = (grid.cell(attack, row.encoder, row.finetune, task) for attack, task in _places(row, column))
    return [cell for cell in found if cell is not None and cell.has(column.metric.name)]


def _number(grid: Grid, row: _Row, column: Column) -> Number | None:
    """Return an entry: the number of a cell, or the mean over several; None where one of these is not done."""
    cells, places = _cells(grid, row, column), list(_places(row, column))
    if len(places) == 1:
        return cells[0].number(column.metric.name) if cells else None
    if len(cells) < len(places):
        return None
    # Texts of different tasks are independent. Attacks have the same texts, and trainings the same encoder.
    independent = len(column.attacks) < 2 and len(column.tasks) > 1 and not any(cell.drawn for cell in cells)
    numbers = [cell.number(column.metric.name) for cell in cells]
    return average(numbers, column.metric.about, intervals=independent)


__all__ = ["LAYOUTS", "table"]
