"""Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3).

The numbers are those that fine-tuning stored: a victim is scored on every test row of a task that is made of several
sources. Which sources were present may differ between machines, so the notes name them. They also name the numbers that
are not above chance.
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


def _find_accuracy(run: SeedRun, part: str) -> Score | None:
    """Return the accuracy that a fine-tuning stored for a part; None where there is none, or the part had no row."""
    if run.record is None:
        return None
    score = next((score for score in run.record.scores if score.name == f"{PART_ACCURACY}{part}"), None)
    return None if score is None or score.value is None else score


class PartAccuracies(Measure[NoOptions]):
    """Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3)."""

    title = "Accuracy on each part of a test split, such as the rounds of ANLI"
    numbers = {"accuracy": ABOUT}

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: a row for each victim of a task that is made of several sources, a column for each part."""
        victim_cells = build_cells(results)
        victims, jobs, flags = list(victim_cells.cells.values()), victim_cells.jobs, results.flags
        parts = _list_shown_parts(victims)
        several_tasks = len(victim_cells.tasks) > 1
        several_strategies = len({victim.finetune for victim in victims}) > 1
        header = ["Task"] if several_tasks else []
        header += ["Encoder", "Fine-tuning"] if several_strategies else ["Encoder"]
        rows: list[tuple[TableEntry, ...]] = []
        for victim in victims:
            names = [victim.task] if several_tasks else []
            names += [victim.encoder, victim.finetune] if several_strategies else [victim.encoder]
            rows.append((*names, *(victim.number(part) for part in parts)))
        part_notes: list[str] = []
        for task in victim_cells.tasks:
            part_notes += _describe_parts([victim for victim in victims if victim.task == task], parts)
        seed_notes = draw_notes(results.plan, jobs) or [seeds_note(jobs)]
        return Table(
            metric="parts",
            header=(*header, *parts),
            rows=tuple(rows),
            groups=frozenset(i for i in range(1, len(victims)) if victims[i].task != victims[i - 1].task),
            cells=tuple(_program_row(victim, part) for victim in victims for part in parts),
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

    def name_in_claims(cell: MeasuredCell) -> list[tuple[str, str]]:
        """Claims name a part where they name a task otherwise; the number is that of the part."""
        return [(part, part) for task in _list_tasks([cell]) for part in test_parts(task)]

    plan, suite = results.plan, results.plan.suite
    jobs_with_names = []
    for job in plan.jobs:
        if job.victim is not None and job.victim.task.parts:
            encoder = plan.draw(job.parts[0]).encoder
            names = {"task": job.victim.task.name, "encoder": encoder, "finetune": job.parts[2]}
            jobs_with_names.append((job, names))
    strategies = dict.fromkeys(names["finetune"] for _, names in jobs_with_names)
    orders = {"task": suite.tasks, "encoder": suite.lineup, "finetune": strategies}
    reading = NumberReading(ABOUT, _find_accuracy, mean_score)
    cells, names_by_axis = gather_cells(results, jobs_with_names, orders, partial(MeasuredCell, read=reading))
    return Grid(results, cells, **names_by_axis, spoken=name_in_claims)


def _list_tasks(victims: Sequence[MeasuredCell]) -> list[TaskSpec]:
    """Return the tasks of some victims, each once."""
    tasks = (victim.jobs[0].victim.task for victim in victims if victim.jobs[0].victim is not None)
    return list({task.name: task for task in tasks}.values())


def _list_shown_parts(victims: list[MeasuredCell]) -> list[str]:
    """Return the parts that have a column: those that some victim was scored on, or all before any is done."""
    all_parts = dict.fromkeys(part for task in _list_tasks(victims) for part in test_parts(task))
    scored_parts = [part for part in all_parts if any(victim.scores(part) for victim in victims)]
    return scored_parts or list(all_parts)


def _describe_parts(victims: list[MeasuredCell], shown_parts: list[str]) -> list[str]:
    """Say of the task of all `victims` which parts were present, which absent, and which numbers are not above chance.

    Nothing is said before a victim is done.
    """
    (task,) = _list_tasks(victims)
    records = [record for victim in victims for record in victim.records]
    if not records:
        return []
    row_counts = {
        part.name: {record.counts.get(f"{PART_ROWS}{part.name}", 0) for record in records} for part in task.parts
    }
    present = [part for part in task.parts if any(row_counts[part.name])]
    absent = [part for part in task.parts if not any(row_counts[part.name])]
    lines = []
    for split in ("train", "validation", "test"):
        sizes = [f"{part.name} {format_range(row_counts[part.name])}" for part in present if part.split == split]
        lines.append(f"{task.name}, {split}: {', '.join(sizes)}.")
    tunings = [victim.jobs[0].tuning for victim in victims]
    limits = [tuning.training.max_train for tuning in tunings if tuning is not None and tuning.training.max_train]
    if limits:
        lines.append(f"{task.name}: at most {format_range(limits)} of the training rows are used.")
    if absent:
        lines.append(f"{task.name}: absent here: {', '.join(part.name for part in absent)}.")
    lines += _describe_chance(victims, shown_parts, 1 / len(task.labels))
    absent_train = [part.name for part in absent if part.split == "train"]
    if absent_train:
        without = f"Without {', '.join(absent_train)} to train on"
        lines.append(f"{without}, an accuracy above chance is not to be expected on every part.")
    return lines


def _describe_chance(victims: list[MeasuredCell], parts: list[str], chance: float) -> list[str]:
    """Name the numbers whose interval reaches down to the accuracy of guessing; return nothing where there are none."""
    not_above = []
    for victim in victims:
        for part in parts:
            number = victim.number(part)
            if number and (number.low or 0.0) <= chance:
                not_above.append(f"{victim.encoder} on {part}")
    if not not_above:
        return []
    return [f"Not above chance ({100 * chance:.1f}), as the interval reaches down to it: {list_names(not_above)}."]


def _program_row(victim: MeasuredCell, part: str) -> dict[str, Any]:
    return {
        **victim.at("task", "encoder", "finetune"),
        "part": part,
        **victim.told(part, "seeds", "seed_sd"),
        "flags": victim.results.flags.told(victim.jobs),
    }
