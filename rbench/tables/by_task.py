"""Lays out Table 1 of the ADCL paper: one row per task, encoder and fine-tuning strategy, with attacks in columns.

Columns are the clean accuracy, and for each attack the success rate and the share of words that it replaced. The best
entry of each task and column is the most robust one, as in the paper: fewer successes, more words replaced. The success
rate of all attacks together (`any_attack`), which is ours, follows those of the attacks.
"""

from __future__ import annotations

from rbench.tables.aggregate import Cell, Grid
from rbench.tables.any_attack import NONE, AnyAttack
from rbench.tables.columns import mark_best
from rbench.tables.layouts import definitions, described
from rbench.tables.notes import interval_note, notes, sizes
from rbench.tables.table import Contest, Entry, Number, Table

SHOWN = ("clean", "asr", "perturbed")


def by_task(grid: Grid, metric: str, together: AnyAttack = NONE) -> Table:
    """Build the table. `metric` does not change what is shown: it is what `value` means in the cells for programs."""
    whole = together.beside(grid)
    columns: list[tuple[str, str]] = [("", "clean"), *((attack, "asr") for attack in whole.attacks)]
    columns += [(attack, "perturbed") for attack in grid.attacks]
    several = len(grid.finetunes) > 1
    rows: list[tuple[Entry, ...]] = []
    groups: list[int] = []
    contests: list[Contest] = []
    for task in grid.tasks:
        names = [
            (encoder, finetune)
            for encoder in grid.encoders
            for finetune in grid.finetunes
            if any((attack, encoder, finetune, task) in grid.cells for attack in grid.attacks)
        ]
        numbers = [[_number(whole, attack, *name, task, kind) for attack, kind in columns] for name in names]
        marked = mark_best(numbers, [grid.metrics[kind].about for _, kind in columns]) if numbers else []
        groups += [len(rows)] if names else []
        for column, (attack, kind) in enumerate(columns, 2 + several):
            found = (_cell(whole, attack, *name, task) for name in names)
            keys = ((cell.key,) if cell is not None else () for cell in found)
            contests.append(Contest(kind, column, tuple(enumerate(keys, len(rows)))))
        for (encoder, finetune), entries in zip(names, marked, strict=True):
            rows.append((task, encoder, *([finetune] if several else []), *entries))
    titles = {"asr": "ASR", "perturbed": "words"}
    header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "Clean"]
    header += [f"{titles[kind]} {attack}" for attack, kind in columns[1:]]
    first = (
        *definitions(grid.metrics[name] for name in SHOWN),
        sizes(grid, "asr", grid.tasks),
        *together.notes(grid, grid.tasks),
    )
    return Table(
        metric=metric,
        layout="by-task",
        header=tuple(header),
        rows=tuple(rows),
        groups=frozenset(groups[1:]),
        cells=tuple(described(cell, metric, whole) for cell in whole.cells.values()),
        notes=notes(grid, grid.tasks, first),
        interval=interval_note(grid, "asr"),
        flags=grid.flags.listed(run.job for run in grid.runs),
        shows=grid.metrics[metric].about,
        contests=tuple(contests),
        best="the most robust, that is the highest accuracy, the lowest ASR and the most words,",
    )


def _cell(grid: Grid, attack: str, encoder: str, finetune: str, task: str) -> Cell | None:
    """Return the cell of an entry that is done.

    Clean accuracy, which names no attack, is taken from the first there is, since all attack the same examples.
    """
    attacks = (attack,) if attack else grid.attacks
    cells = [grid.cells[key] for one in attacks if (key := (one, encoder, finetune, task)) in grid.cells]
    return next((cell for cell in cells if cell.present), None)


def _number(grid: Grid, attack: str, encoder: str, finetune: str, task: str, kind: str) -> Number | None:
    cell = _cell(grid, attack, encoder, finetune, task)
    return cell.number(kind) if cell is not None else None
