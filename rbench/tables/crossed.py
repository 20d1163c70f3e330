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
from itertools import product
from typing import Any, NamedTuple, cast

from rbench.errors import StoreError
from rbench.metrics import Metric
from rbench.tables.aggregate import ANY, NO_ATTACK, AttackCell, AttackGrid
from rbench.tables.any_attack import NONE, AnyAttackCells
from rbench.tables.layouts import cell_for_programs, list_definitions
from rbench.tables.notes import ceiling_notes, denominator_note, interval_note, table_notes
from rbench.tables.table import (
    Contest,
    Layout,
    Meaning,
    Number,
    Table,
    TableEntry,
    average_entries,
    group_starts,
    mark_best_of_column,
)

LAYOUTS = ("by-attack", "means")
AVERAGE = "Avg."
JOINED_NOTE = (
    "Those of means over tasks are joined from the tasks' own, whose texts are independent (Zou and Donner 2008)."
)


class MetricColumn(NamedTuple):
    """A column of numbers."""

    metric: Metric
    head: str
    tasks: tuple[str, ...]
    """The tasks over which an entry is a mean; empty: the task of the row."""
    attacks: tuple[str, ...]
    """The attacks over which an entry is a mean; empty: the attack of the row."""


class RowNames(NamedTuple):
    """The names of a row. `task` or `attack` is empty where columns give it."""

    task: str
    attack: str
    encoder: str
    finetune: str | None
    """None where a task and an encoder name a victim."""

    @property
    def shown(self) -> list[str]:
        """The names that the row has in the table."""
        names = [name for name in (self.task, self.attack) if name]
        return [*names, self.encoder] if self.finetune is None else [*names, self.encoder, self.finetune]


def build_crossed_table(
    grid: AttackGrid, metrics: Sequence[str], layout: str, any_attack_cells: AnyAttackCells = NONE
) -> Table:
    """Build the table. The first metric is what `value` means in the cells for programs.

    Raises StoreError where no task has all metrics.
    """
    shown_metrics = [grid.metrics[name] for name in metrics]
    before_attacks = layout == "paper" and all(metric.of == "victims" for metric in shown_metrics)
    shown_grid = grid.before_attacks() if before_attacks else any_attack_cells.beside(grid)
    tasks = tuple(task for task in grid.tasks if all(task in grid.tasks_of(metric) for metric in shown_metrics))
    if not tasks:
        raise StoreError(f"no task of this suite has {' and '.join(metric.about.words for metric in shown_metrics)}.")
    all_attacks_have_one = any(metric.together for metric in shown_metrics)
    attacks = shown_grid.attacks if before_attacks or all_attacks_have_one else grid.attacks
    columns = [column for metric in shown_metrics for column in _columns(metric, layout, tasks, attacks, grid)]
    rows, contests = _build_rows(shown_grid, layout, tasks, attacks, columns)
    # The column that divides rows into groups.
    group_heads = {"by-attack": "Task"} if before_attacks else {"by-attack": "Task", "paper": "Attack"}
    names = [group_heads[layout]] if layout in group_heads else []
    names += ["Encoder", "Fine-tuning"] if grid.several else ["Encoder"]
    heads = [column.head or column.metric.about.column for column in columns]
    above = []
    if len(shown_metrics) > 1:
        above = [column.metric.about.column if column.head else "" for column in columns]
    at_ceiling = ceiling_notes(grid, tasks) if "asr" in metrics else []
    means_note = [f"Means over {', '.join(tasks)}."] if layout == "means" and len(tasks) > 1 else []
    own_notes = (
        *means_note,
        *list_definitions(shown_metrics),
        denominator_note(grid, metrics[0], tasks),
        *at_ceiling,
        *any_attack_cells.notes(grid, tasks),
    )
    no_attack = {"attack": NO_ATTACK} if before_attacks else {}
    intervals = interval_note(grid, metrics[0])
    return Table(
        metric=metrics[0],
        layout=cast(Layout, layout),
        header=(*names, *heads),
        above=(*("" for _ in names), *above) if any(above) else (),
        rows=tuple(rows),
        groups=group_starts(rows) if layout in group_heads else frozenset(),
        cells=tuple(
            cell_for_programs(cell, metrics[0], shown_grid) | no_attack | _scores(cell, shown_metrics)
            for cell in shown_grid.cells.values()
            if cell.task in tasks
        ),
        notes=table_notes(grid, tasks, own_notes),
        interval=f"{intervals} {JOINED_NOTE}" if layout == "means" else intervals,
        flags=grid.flags.listed(job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs),
        shows=_joint_meaning(shown_metrics, layout, len(tasks), by_attack=not before_attacks),
        contests=tuple(contests),
        best="the most robust" if shown_metrics[1:] else "",
        brief=tuple(at_ceiling),
    )


def _scores(cell: AttackCell, asked: Sequence[Metric]) -> dict[str, Any]:
    """Return all metrics of a cell for programs; nothing where the table has one, which is `value`."""
    if len(asked) < 2:
        return {}
    return {"scores": {metric.name: cell.told(metric.name) for metric in asked if cell.has(metric.name)}}


def _joint_meaning(shown_metrics: Sequence[Metric], layout: str, tasks: int, *, by_attack: bool) -> Meaning:
    """Return what the caption says of the metrics; `by_attack`: whether the layout paper has rows for each attack."""
    among = {"paper": "of each attack and column", "by-attack": "of each task and column", "means": "of each column"}
    first = replace(shown_metrics[0].about, among=among[layout if by_attack else "means"])
    means_over = f"means over {tasks} tasks" if layout == "means" and tasks > 1 else ""
    if not shown_metrics[1:]:
        return replace(first, title=f"{first.title}, {means_over}") if means_over else first
    names = [first.title, *(metric.about.words for metric in shown_metrics[1:])]
    arrows = (metric.about.arrow if metric.about.best else "" for metric in shown_metrics)
    titles = [f"{name} {arrow}".strip() for name, arrow in zip(names, arrows, strict=True)]
    unit = ", %" if all(metric.about.percent for metric in shown_metrics) else ""
    title = f"{', '.join(titles[:-1])} and {titles[-1]}{unit}"
    return replace(first, title=title, definition=means_over or {"by-attack": "by attack", "paper": "by task"}[layout])


def _columns(
    metric: Metric, layout: str, tasks: tuple[str, ...], attacks: Sequence[str], grid: AttackGrid
) -> list[MetricColumn]:
    """Return the columns of one metric: its tasks or its attacks, and their average where there are several."""
    if layout == "paper":
        columns = [MetricColumn(metric, task, (task,), ()) for task in tasks]
        if len(tasks) > 1:
            columns.append(MetricColumn(metric, AVERAGE, tasks, ()))
        return columns
    mean_tasks = tasks if layout == "means" else ()
    if metric.of == "victims":
        # Each attack on a victim found the same, so the first is read.
        return [MetricColumn(metric, "", mean_tasks, grid.attacks[:1])]
    shown_attacks = attacks if metric.together else [attack for attack in attacks if attack != ANY]
    columns = [MetricColumn(metric, attack, mean_tasks, (attack,)) for attack in shown_attacks]
    if len(grid.attacks) > 1:
        columns.append(MetricColumn(metric, AVERAGE, mean_tasks, tuple(grid.attacks)))
    return columns


def _build_rows(
    shown_grid: AttackGrid, layout: str, tasks: Sequence[str], attacks: Sequence[str], columns: Sequence[MetricColumn]
) -> tuple[list[tuple[TableEntry, ...]], list[Contest]]:
    """Return the rows, group by group with the best marked, and what is compared in each column of a group."""
    groups = {"paper": [("", attack) for attack in attacks], "by-attack": [(task, "") for task in tasks]}
    rows: list[tuple[TableEntry, ...]] = []
    contests: list[Contest] = []
    finetunes: Sequence[str | None] = shown_grid.finetunes if shown_grid.several else (None,)
    for task, attack in groups.get(layout, [("", "")]):
        first_column = len([name for name in (task, attack) if name]) + (2 if shown_grid.several else 1)
        victims = []
        for encoder, finetune in product(shown_grid.encoders, finetunes):
            row = RowNames(task, attack, encoder, finetune)
            if any(_entry_cells(shown_grid, row, column) for column in columns):
                victims.append(row)
        number_columns: list[list[Number | None]] = []
        for index, column in enumerate(columns, start=first_column):
            numbers = [_entry_number(shown_grid, row, column) for row in victims]
            # Averages over attacks are not tested, because these have the same texts.
            if len(column.attacks) < 2:
                numbers = mark_best_of_column(numbers, column.metric.about.best)
                keys = [tuple(cell.key for cell in _entry_cells(shown_grid, row, column)) for row in victims]
                contests.append(Contest(column.metric.name, index, tuple(enumerate(keys, len(rows)))))
            number_columns.append(numbers)
        for row, *entries in zip(victims, *number_columns, strict=True):
            rows.append((*row.shown, *entries))
    return rows, contests


def _attacks_and_tasks(row: RowNames, column: MetricColumn) -> Iterable[tuple[str, str]]:
    """Return attack and task of the cells of an entry."""
    tasks, attacks = column.tasks or (row.task,), column.attacks or (row.attack,)
    return [(attack, task) for task in tasks for attack in attacks]


def _entry_cells(grid: AttackGrid, row: RowNames, column: MetricColumn) -> list[AttackCell]:
    candidates = (
        grid.cell(attack, row.encoder, row.finetune, task) for attack, task in _attacks_and_tasks(row, column)
    )
    return [cell for cell in candidates if cell is not None and cell.has(column.metric.name)]


def _entry_number(grid: AttackGrid, row: RowNames, column: MetricColumn) -> Number | None:
    """Return an entry: the number of a cell, or the mean over several; None where one of these is not done."""
    cells, places = _entry_cells(grid, row, column), list(_attacks_and_tasks(row, column))
    if len(places) == 1:
        return cells[0].number(column.metric.name) if cells else None
    if len(cells) < len(places):
        return None
    # Texts of different tasks are independent. Attacks have the same texts, and trainings the same encoder.
    independent = len(column.attacks) < 2 and len(column.tasks) > 1 and not any(cell.drawn for cell in cells)
    numbers = [cell.number(column.metric.name) for cell in cells]
    return average_entries(numbers, column.metric.about, intervals=independent)


__all__ = ["LAYOUTS", "build_crossed_table"]
