"""Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3).

The numbers are those that fine-tuning stored: a victim is scored on every test row of a task that is made of several
sources. Which sources were there differs between machines, so the notes name them, and which columns are above chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema import PART_ACCURACY, PART_ROWS, Score, TaskSpec
from rbench.schema.claims import tested
from rbench.schema.extension import NoOptions
from rbench.score.contrast import mean_score
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Measured, Reading, gathered
from rbench.tables.draws import notes as draw_notes
from rbench.tables.formats import listed
from rbench.tables.notes import missing, seeds, spanned
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning

ABOUT = Meaning("Accuracy by part", "right / all rows of the part", "highest", undefined="no row in the part")


def _score(run: Run, part: str) -> Score | None:
    found = run.record.scores if run.record is not None else ()
    return next((one for one in found if one.name == f"{PART_ACCURACY}{part}" and one.value is not None), None)


class Parts(Measure[NoOptions]):
    """Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3)."""

    title = "Accuracy on each part of a test split, such as the rounds of ANLI"
    numbers = {"accuracy": ABOUT}

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: a row for each victim. Raises StoreError where no task is made of several."""
        found = cells(results)
        victims, jobs = list(found.cells.values()), found.jobs
        if not victims:
            raise StoreError(
                f"suite {results.plan.suite.name} has no task that is made of several sources, such as anli: there is "
                "no part to show. Add one under `tasks`."
            )
        names, tasks, flags = _shown(victims), found.tasks, results.flags
        several = len({victim.finetune for victim in victims}) > 1
        rows: list[tuple[Entry, ...]] = []
        for victim in victims:
            label = [victim.task] if len(tasks) > 1 else []
            numbers = [victim.number(name) for name in names]
            rows.append((*label, victim.encoder, *([victim.finetune] if several else []), *numbers))
        said = [note for task in tasks for note in _said([victim for victim in victims if victim.task == task], names)]
        seed_notes = draw_notes(results.plan, jobs) or [seeds(jobs)]
        header = [*(["Task"] if len(tasks) > 1 else []), "Encoder", *(["Fine-tuning"] if several else [])]
        return Table(
            metric="parts",
            header=(*header, *names),
            rows=tuple(rows),
            groups=frozenset(i for i in range(1, len(victims)) if victims[i].task != victims[i - 1].task),
            cells=tuple(_cell(victim, name) for victim in victims for name in names),
            notes=(
                *said,
                *results.plan.suite.notes,
                *seed_notes,
                *(f"{task.name}: {note}" for task in _specs(victims) for note in task.notes),
                *flags.notes(jobs),
                *missing("victims", jobs, results.standing),
            ),
            interval="Wilson 95% intervals; of the mean over seeds as wide as of one seed: all see the same rows.",
            flags=flags.listed(jobs),
            about=ABOUT,
            brief=(*said, *seed_notes),
        )

    def cells(self, results: Results) -> Grid[Measured]:
        return cells(results)


def cells(results: Results) -> Grid[Measured]:
    """Return the victims of tasks with parts, task by task, in the suite's order."""

    def spoken(cell: Measured) -> list[tuple[str, str]]:
        return [(part, part) for task in _specs([cell]) for part in tested(task)]

    plan, suite = results.plan, results.plan.suite
    named = [
        (job, {"task": spec.task.name, "encoder": plan.draw(job.parts[0]).encoder, "finetune": job.parts[2]})
        for job in plan.jobs
        if (spec := job.victim) is not None and spec.task.parts
    ]
    tuned = dict.fromkeys(names["finetune"] for _, names in named)
    orders = {"task": suite.tasks, "encoder": suite.lineup, "finetune": tuned}
    cells, axes = gathered(results, named, orders, partial(Measured, read=Reading(ABOUT, _score, mean_score)))
    return Grid(results, cells, **axes, spoken=spoken)


def _specs(victims: Sequence[Measured]) -> list[TaskSpec]:
    """Return the task of the victims, or each of them."""
    return list({spec.task.name: spec.task for one in victims if (spec := one.jobs[0].victim) is not None}.values())


def _shown(victims: list[Measured]) -> list[str]:
    """Return the parts that have a column: those that some victim was scored on, or all before any is done."""
    every = dict.fromkeys(part for task in _specs(victims) for part in tested(task))
    there = [name for name in every if any(victim.scores(name) for victim in victims)]
    return there or list(every)


def _said(victims: list[Measured], names: list[str]) -> list[str]:
    """Say of a task which parts were there, which absent, and which numbers are not above chance."""
    (task,) = _specs(victims)
    records = [record for victim in victims for record in victim.records]
    if not records:
        return []
    rows = {part.name: {record.counts.get(f"{PART_ROWS}{part.name}", 0) for record in records} for part in task.parts}
    said = []
    for split in ("train", "validation", "test"):
        there = [part.name for part in task.parts if part.split == split and any(rows[part.name])]
        said.append(f"{task.name}, {split}: {', '.join(f'{name} {spanned(rows[name])}' for name in there)}.")
    most = [spec.training.max_train for victim in victims if (spec := victim.jobs[0].tuning) is not None]
    if any(most):
        said.append(f"{task.name}: at most {spanned(n for n in most if n)} of the training rows are used.")
    absent = [part for part in task.parts if not any(rows[part.name])]
    said += [f"{task.name}: absent here: {', '.join(part.name for part in absent)}."] if absent else []
    said += _at_chance(victims, names, 1 / len(task.labels))
    if lacking := [part.name for part in absent if part.split == "train"]:
        without = f"Without {', '.join(lacking)} to train on"
        said.append(f"{without}, an accuracy above chance is not to be expected on every part.")
    return said


def _at_chance(victims: list[Measured], names: list[str], chance: float) -> list[str]:
    """Name the numbers whose interval reaches down to the accuracy of guessing."""
    numbers = ((victim, name, victim.number(name)) for victim in victims for name in names)
    low = [f"{victim.encoder} on {name}" for victim, name, one in numbers if one and (one.low or 0.0) <= chance]
    return [f"Not above chance ({100 * chance:.1f}), as the interval reaches down to it: {listed(low)}."] if low else []


def _cell(victim: Measured, part: str) -> dict[str, Any]:
    return {
        **victim.at("task", "encoder", "finetune"),
        "part": part,
        **victim.told(part, "seeds", "seed_sd"),
        "flags": victim.results.flags.told(victim.jobs),
    }
