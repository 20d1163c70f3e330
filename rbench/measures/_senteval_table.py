"""The table of the measure `senteval`: accuracies on transfer tasks, and their average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from rbench.measures._by_encoder import ByEncoder, Row, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.score import wilson
from rbench.spec import Score
from rbench.tables import Results, Table
from rbench.tables.cells import PLAIN
from rbench.tables.columns import average, best_of
from rbench.tables.table import Entry, Meaning, Number

NAME = "senteval"
SEVEN = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
PRINTED = (SEVEN, tuple(task for task in SEVEN if task != "trec"))
"""The tasks over which papers average: SimCSE and V-advCSE all seven, RobustSentEmbed those without TREC."""
ABOUT = Meaning(
    "Transfer tasks",
    "accuracy of a logistic regression on the encoder's frozen vectors, by SentEval's protocol",
    "highest",
    digits=2,
    undefined="no row",
    good="better",
    among="of each column",
)
_PROTOCOLS = {
    "nested": "cross-validation over all rows, regularisation chosen by an inner one",
    "folds": "regularisation chosen by cross-validation of training and validation rows, accuracy on test rows",
    "split": "regularisation chosen on validation rows, accuracy on test rows",
}


def made(results: Results, chosen: BaseModel | None, tasks: Sequence[str] | None) -> Table:
    """Make one row for each encoder, a column for each task, and their average.

    Args:
        chosen: options that choose among jobs; None: all jobs.
        tasks: the tasks to show; None: all.
    """
    found = by_encoder(results, NAME, chosen, (ABOUT, _score), SEVEN)
    shown = [task for task in found.tasks if tasks is None or task in tasks]
    several = len(shown) > 1
    done = {task: [one for row in found.rows for one in found.of(row, task)] for task in shown}
    pairs = [task for task in shown if any(_score(one, "f1").value is not None for one in done[task])]
    grid = [[found.number(row, task, "accuracy") for task in shown] for row in found.rows]
    columns = [list(column) for column in zip(*grid, strict=True)]
    averages = [average(numbers, ABOUT, intervals=True) for numbers in grid]
    columns += [averages] if several else []
    columns += [[found.number(row, task, "f1") for row in found.rows] for task in pairs]
    best = [best_of(column, "highest") for column in columns]
    rows: list[tuple[Entry, ...]] = [
        (*found.names(row), *(column[i] for column in best)) for i, row in enumerate(found.rows)
    ]
    means = [_mean_cell(row, mean, shown) for row, mean in zip(found.rows, averages, strict=True)] if several else []
    return Table(
        metric=NAME,
        layout="paper",
        header=(*found.named, *shown, *([_heading(shown)] if several else []), *(f"{task} F1" for task in pairs)),
        rows=tuple(rows),
        groups=frozenset(),
        cells=(*(_cell(found, row, task) for row in found.rows for task in shown if found.of(row, task)), *means),
        notes=(*_notes(found, shown), *found.common_notes()),
        interval=found.interval(
            "Wilson 95% intervals; that of an average is joined from those of its tasks (Zou and Donner 2008). The F1 "
            "has none."
        ),
        flags=found.flags.listed(found.asked),
        about=ABOUT,
    )


def _score(one: MeasuredJob, name: str) -> Score:
    """Return `accuracy` or `f1` of a job."""
    numbers = one.rows[0].numbers
    n, value = int(numbers["n"] or 0), numbers[name]
    low, high = (wilson((value or 0.0) * n, n) if name == "accuracy" else None) or (None, None)
    return Score(name=name, value=value, n=n, low=low, high=high)


def _heading(shown: list[str]) -> str:
    """Return the heading of the average: the bare word only where papers average over the same tasks."""
    return "Avg." if any({*shown} == {*tasks} for tasks in PRINTED) else f"Avg. of {len(shown)}"


def _notes(found: ByEncoder, shown: list[str]) -> tuple[str, ...]:
    there = {task: next((one for row in found.rows for one in found.of(row, task)), None) for task in shown}
    told: dict[str, list[str]] = {}
    for task, one in there.items():
        if one is not None:
            numbers, protocol = one.rows[0].numbers, one.rows[0].names["protocol"]
            told.setdefault(protocol, []).append(f"{task} (n = {int(numbers['n'] or 0)})")
    folds = sorted({int(one.options["folds"]) for one in there.values() if one is not None})
    missing = [task for task in SEVEN if task not in shown]
    printed = any({*shown} == {*tasks} for tasks in PRINTED)
    absent = f"Not here: {', '.join(missing)}, so that this average compares with none that papers print."
    return (
        *(f"{', '.join(tasks)}: {_PROTOCOLS[protocol]}." for protocol, tasks in told.items()),
        f"Folds: {', '.join(map(str, folds))}. The classifier is scikit-learn's; papers use SentEval's PyTorch "
        "classifier, which fits the same model by early-stopped Adam.",
        *([absent] if missing and not printed and len(shown) > 1 else []),
        *(f"{task}: {note}" for task, one in there.items() if one is not None for note in one.spec.task.notes),
    )


def _cell(found: ByEncoder, row: Row, task: str) -> dict[str, Any]:
    cell, jobs = found.cells[row[1], row[0], task], found.of(row, task)
    told = cell.told("accuracy")
    f1 = cell.number("f1")
    return {
        "encoder": row[0],
        "task": task,
        "evaluation": row[1],
        **{name: told.pop(name) for name in PLAIN},
        "f1": f1.value if f1 is not None else None,
        "least_c": min(one.rows[0].numbers["least_c"] or 0.0 for one in jobs),
        "most_c": max(one.rows[0].numbers["most_c"] or 0.0 for one in jobs),
        **told,
        "flags": found.flags.told(run.job for run in cell.done),
    }


def _mean_cell(row: Row, mean: Number | None, shown: list[str]) -> dict[str, Any]:
    told = {name: getattr(mean, name, None) for name in ("value", "low", "high")}
    return {"encoder": row[0], "evaluation": row[1], "average_of": list(shown), **told}
