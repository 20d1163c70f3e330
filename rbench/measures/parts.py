"""Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3).

The numbers are those that fine-tuning stored: a victim is scored on every test row of a task that is made of several
sources. Which sources were there differs between machines, so the notes name them, and which columns are above chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rbench.measures import Measure
from rbench.schema import PART_ACCURACY, PART_ROWS, Score, TaskSpec
from rbench.schema.claims import test_parts
from rbench.schema.extension import NoOptions
from rbench.score.contrast import mean_score
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, MeasuredCell, NumberReading, gather_cells
from rbench.tables.draws import notes as draw_notes
from rbench.tables.formats import list_names
from rbench.tables.notes import format_range, seeds_note, unfinished_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, TableEntry

ABOUT = Meaning("Accuracy by part", "right / all rows of the part", "highest", undefined="no row in the part")


def _score_part(run: SeedRun, part: str) -> Score | None:
    scores = run.record.scores if run.record is not None else ()
    return next((score for score in scores if score.name == f"{PART_ACCURACY}{part}" and score.value is not None), None)


class PartAccuracies(Measure[NoOptions]):
    """Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3)."""

    title = "Accuracy on each part of a test split, such as the rounds of ANLI"
    numbers = {"accuracy": ABOUT}

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: a row for each victim of a task that is made of several."""
        victim_cells = build_cells(results)
        victims, jobs = list(victim_cells.cells.values()), victim_cells.jobs
        names, tasks, flags = _parts_shown(victims), victim_cells.tasks, results.flags
        several = len({victim.finetune for victim in victims}) > 1
        rows: list[tuple[TableEntry, ...]] = []
        for victim in victims:
            label = [victim.task] if len(tasks) > 1 else []
            numbers = [victim.number(name) for name in names]
            rows.append((*label, victim.encoder, *([victim.finetune] if several else []), *numbers))
        part_notes = [
            note
            for task in tasks
            for note in _describe_parts([victim for victim in victims if victim.task == task], names)
        ]
        seed_notes = draw_notes(results.plan, jobs) or [seeds_note(jobs)]
        header = [*(["Task"] if len(tasks) > 1 else []), "Encoder", *(["Fine-tuning"] if several else [])]
        return Table(
            metric="parts",
            header=(*header, *names),
            rows=tuple(rows),
            groups=frozenset(i for i in range(1, len(victims)) if victims[i].task != victims[i - 1].task),
            cells=tuple(_program_row(victim, name) for victim in victims for name in names),
            notes=(
                *part_notes,
                *results.plan.suite.notes,
                *seed_notes,
                *(f"{task.name}: {note}" for task in _list_tasks(victims) for note in task.notes),
                *flags.notes(jobs),
                *unfinished_notes("victims", jobs, results.standing),
            ),
            interval="Wilson 95% intervals; of the mean over seeds as wide as of one seed: all see the same rows.",
            flags=flags.listed(jobs),
            about=ABOUT,
            brief=(*part_notes, *seed_notes),
        )

    def cells(self, results: Results) -> Grid[MeasuredCell]:
        return build_cells(results)


def build_cells(results: Results) -> Grid[MeasuredCell]:
    """Return the victims of tasks with parts, task by task, in the suite's order."""

    def spoken(cell: MeasuredCell) -> list[tuple[str, str]]:
        return [(part, part) for task in _list_tasks([cell]) for part in test_parts(task)]

    plan, suite = results.plan, results.plan.suite
    jobs_with_names = [
        (job, {"task": spec.task.name, "encoder": plan.draw(job.parts[0]).encoder, "finetune": job.parts[2]})
        for job in plan.jobs
        if (spec := job.victim) is not None and spec.task.parts
    ]
    strategies = dict.fromkeys(names["finetune"] for _, names in jobs_with_names)
    orders = {"task": suite.tasks, "encoder": suite.lineup, "finetune": strategies}
    cells, axes = gather_cells(
        results, jobs_with_names, orders, partial(MeasuredCell, read=NumberReading(ABOUT, _score_part, mean_score))
    )
    return Grid(results, cells, **axes, spoken=spoken)


def _list_tasks(victims: Sequence[MeasuredCell]) -> list[TaskSpec]:
    """Return the task of the victims, or each of them."""
    return list(
        {spec.task.name: spec.task for victim in victims if (spec := victim.jobs[0].victim) is not None}.values()
    )


def _parts_shown(victims: list[MeasuredCell]) -> list[str]:
    """Return the parts that have a column: those that some victim was scored on, or all before any is done."""
    all_parts = dict.fromkeys(part for task in _list_tasks(victims) for part in test_parts(task))
    scored_parts = [name for name in all_parts if any(victim.scores(name) for victim in victims)]
    return scored_parts or list(all_parts)


def _describe_parts(victims: list[MeasuredCell], names: list[str]) -> list[str]:
    """Say of a task which parts were there, which absent, and which numbers are not above chance."""
    (task,) = _list_tasks(victims)
    records = [record for victim in victims for record in victim.records]
    if not records:
        return []
    rows = {part.name: {record.counts.get(f"{PART_ROWS}{part.name}", 0) for record in records} for part in task.parts}
    lines = []
    for split in ("train", "validation", "test"):
        present = [part.name for part in task.parts if part.split == split and any(rows[part.name])]
        lines.append(f"{task.name}, {split}: {', '.join(f'{name} {format_range(rows[name])}' for name in present)}.")
    max_train = [spec.training.max_train for victim in victims if (spec := victim.jobs[0].tuning) is not None]
    if any(max_train):
        lines.append(
            f"{task.name}: at most {format_range(limit for limit in max_train if limit)} of the training rows are used."
        )
    absent = [part for part in task.parts if not any(rows[part.name])]
    lines += [f"{task.name}: absent here: {', '.join(part.name for part in absent)}."] if absent else []
    lines += _describe_chance(victims, names, 1 / len(task.labels))
    if absent_train := [part.name for part in absent if part.split == "train"]:
        without = f"Without {', '.join(absent_train)} to train on"
        lines.append(f"{without}, an accuracy above chance is not to be expected on every part.")
    return lines


def _describe_chance(victims: list[MeasuredCell], names: list[str], chance: float) -> list[str]:
    """Name the numbers whose interval reaches down to the accuracy of guessing."""
    numbers = ((victim, name, victim.number(name)) for victim in victims for name in names)
    not_above = [
        f"{victim.encoder} on {name}" for victim, name, number in numbers if number and (number.low or 0.0) <= chance
    ]
    return (
        [f"Not above chance ({100 * chance:.1f}), as the interval reaches down to it: {list_names(not_above)}."]
        if not_above
        else []
    )


def _program_row(victim: MeasuredCell, part: str) -> dict[str, Any]:
    return {
        **victim.at("task", "encoder", "finetune"),
        "part": part,
        **victim.told(part, "seeds", "seed_sd"),
        "flags": victim.results.flags.told(victim.jobs),
    }
