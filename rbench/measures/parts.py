"""Accuracy on each part of a task's test split, such as the rounds of ANLI (V-advCSE, Table 3).

The numbers are those that fine-tuning stored: a victim is scored on every test row of a task that is made of several
sources. Which sources were there differs between machines, so the notes name them, and which columns are above chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rbench.errors import StoreError
from rbench.measures._options import Plain
from rbench.score import wilson
from rbench.spec import PART_ACCURACY, PART_ROWS, Draw, Job, Record, Score, TaskSpec
from rbench.tables import Results, Table
from rbench.tables.aggregate import in_order
from rbench.tables.draws import means, plain, within
from rbench.tables.draws import notes as draw_notes
from rbench.tables.flags import Flags
from rbench.tables.formats import listed
from rbench.tables.notes import missing, seeds, spanned
from rbench.tables.table import Draws, Entry, Meaning, Number

TITLE = "Accuracy on each part of a test split, such as the rounds of ANLI"

Options = Plain


@dataclass(frozen=True)
class Victim:
    """A victim over its seeds and trainings: the jobs that made it, and the records of those that are done."""

    task: TaskSpec
    encoder: str
    finetune: str
    jobs: tuple[Job, ...]
    records: tuple[Record, ...]
    draws: Mapping[str, Draw]
    """Of the plan; see `Plan.draws`."""

    def number(self, part: str) -> Number | None:
        """Return the accuracy on a part over all seeds and trainings that are done; all saw the same rows."""
        found = [(self._training(record.job), _score_of(record, part)) for record in self.records]
        there = [(training, score) for training, score in found if score is not None and score.value is not None]
        if not there:
            return None
        values = [(training, score.value) for training, score in there]
        value, n = sum(score.value or 0.0 for _, score in there) / len(there), there[0][1].n
        low, high = wilson(value * n, n) or (None, None)
        several = len({job.seed for job in self.jobs}) > 1
        trainings = Draws(means(values), several) if self.draws else None
        sd, partial = within(values), len(values) < len(self.jobs)
        return Number(value, True, n, low, high, seed_sd=sd, draws=trainings, partial=partial)

    def _training(self, job: Job) -> int | None:
        draw = self.draws.get(job.parts[0])
        return draw.train_seed if draw is not None else None


def _score_of(record: Record, part: str) -> Score | None:
    return next((score for score in record.scores if score.name == f"{PART_ACCURACY}{part}"), None)


def table(options: Plain, results: Results) -> Table:
    """Make the table: a row for each victim. Raises StoreError where the suite has no task that is made of several."""
    victims = _victims(results)
    if not victims:
        raise StoreError(
            f"suite {results.plan.suite.name} has no task that is made of several sources, such as anli: there is no "
            "part to show. Add one under `tasks`."
        )
    names = _shown(victims)
    tasks, several = list(dict.fromkeys(victim.task.name for victim in victims)), len({v.finetune for v in victims}) > 1
    flags, jobs = Flags(results.plan, results.standing.records), [job for victim in victims for job in victim.jobs]
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    for victim in victims:
        hiding = flags.hiding(victim.jobs)
        numbers = {name: one and one.hidden(hiding) for name in names for one in [victim.number(name)]}
        label = [victim.task.name] if len(tasks) > 1 else []
        rows.append((*label, victim.encoder, *([victim.finetune] if several else []), *numbers.values()))
        cells += [_cell(victim, name, number, flags) for name, number in numbers.items()]
    said = [note for task in tasks for note in _said([victim for victim in victims if victim.task.name == task], names)]
    seed_notes = draw_notes(results.plan, jobs) or [seeds(jobs)]
    header = [*(["Task"] if len(tasks) > 1 else []), "Encoder", *(["Fine-tuning"] if several else [])]
    return Table(
        metric="parts",
        layout="paper",
        header=(*header, *names),
        rows=tuple(rows),
        groups=frozenset(i for i in range(1, len(victims)) if victims[i].task != victims[i - 1].task),
        cells=tuple(cells),
        notes=(
            *said,
            *results.plan.suite.notes,
            *seed_notes,
            *(f"{victim.task.name}: {note}" for victim in _first(victims) for note in victim.task.notes),
            *flags.notes(jobs),
            *missing("victims", jobs, results.standing),
        ),
        interval="Wilson 95% intervals; of the mean over seeds as wide as of one seed: all see the same rows.",
        flags=flags.listed(jobs),
        about=Meaning("Accuracy by part", "right / all rows of the part", "highest", undefined="no row in the part"),
        brief=(*said, *seed_notes),
    )


def _victims(results: Results) -> list[Victim]:
    """Return the victims of tasks with parts, task by task, in the suite's order."""
    plan = results.plan
    found: dict[tuple[str, str, str], list[Job]] = {}
    for job in plan.jobs:
        if job.victim is not None and job.victim.task.parts:
            key = job.victim.task.name, plan.draw(job.parts[0]).encoder, job.parts[2]
            found.setdefault(key, []).append(job)
    order = in_order(plan.suite.lineup, (encoder for _, encoder, _ in found))
    tasks = in_order(plan.suite.tasks, (task for task, _, _ in found))
    keys = sorted(found, key=lambda key: (tasks.index(key[0]), order.index(key[1])))
    return [_victim(found[key], key, results) for key in keys]


def _victim(jobs: list[Job], key: tuple[str, str, str], results: Results) -> Victim:
    records, spec = results.standing.records, jobs[0].victim
    assert spec is not None
    done = (records.get(job.key) for job in jobs)
    complete = tuple(record for record in done if record is not None and record.status == "complete")
    return Victim(spec.task, *key[1:], tuple(jobs), complete, results.plan.draws)


def _shown(victims: list[Victim]) -> list[str]:
    """Return the parts that have a column: those that some victim was scored on, or all before any is done."""
    every = dict.fromkeys(p.name for victim in victims for p in victim.task.parts if p.split == "test")
    there = [name for name in every if any(victim.number(name) is not None for victim in victims)]
    return there or list(every)


def _first(victims: list[Victim]) -> list[Victim]:
    """Return one victim of each task."""
    return list({victim.task.name: victim for victim in reversed(victims)}.values())[::-1]


def _said(victims: list[Victim], names: list[str]) -> list[str]:
    """Say of a task which parts were there, which absent, and which numbers are not above chance."""
    task = victims[0].task
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


def _at_chance(victims: list[Victim], names: list[str], chance: float) -> list[str]:
    """Name the numbers whose interval reaches down to the accuracy of guessing."""
    numbers = ((victim, name, victim.number(name)) for victim in victims for name in names)
    low = [f"{victim.encoder} on {name}" for victim, name, one in numbers if one and (one.low or 0.0) <= chance]
    return [f"Not above chance ({100 * chance:.1f}), as the interval reaches down to it: {listed(low)}."] if low else []


def _cell(victim: Victim, part: str, number: Number | None, flags: Flags) -> dict[str, Any]:
    own = number or Number(None, True)
    return {
        "task": victim.task.name,
        "encoder": victim.encoder,
        "finetune": victim.finetune,
        "part": part,
        "value": own.value,
        "n": own.n,
        "low": own.low,
        "high": own.high,
        "seeds": len({record.job.seed for record in victim.records}),
        "seed_sd": own.seed_sd,
        **plain(own.draws),
        "flags": flags.told(victim.jobs),
    }
