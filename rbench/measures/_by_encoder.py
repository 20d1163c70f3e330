"""What measures of encoders stored, by encoder and task: trainings joined, and averages over tasks with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import BaseModel

from rbench.measures._stored import MeasuredJob, jobs, measured
from rbench.spec import Job
from rbench.tables import Results
from rbench.tables.aggregate import in_order
from rbench.tables.draws import COVERED, means
from rbench.tables.draws import notes as draw_notes
from rbench.tables.flags import Flags
from rbench.tables.notes import missing, selected_steps
from rbench.tables.table import Draws, Number
from rbench.tables.variants import notes as variant_notes


class Estimate(NamedTuple):
    """A number with its 95% interval, and the size of its sample."""

    value: float | None
    low: float | None
    high: float | None
    n: int


Row = tuple[str, str]
"""Encoder, as the suite names it, and the measure's label."""


@dataclass(frozen=True)
class ByEncoder:
    """The jobs of a measure of encoders."""

    results: Results
    asked: tuple[Job, ...]
    """All jobs, done or not."""
    done: Mapping[tuple[Row, str], tuple[MeasuredJob, ...]]
    """By row and task, the complete jobs: one a training."""
    rows: tuple[Row, ...]
    tasks: tuple[str, ...]

    @property
    def flags(self) -> Flags:
        return Flags(self.results.plan, self.results.standing.records)

    @property
    def labelled(self) -> bool:
        """Whether the suite asks for the measure more than once, so that rows need its label."""
        return len({label for _, label in self.rows}) > 1

    def names(self, row: Row) -> tuple[str, ...]:
        """Return the entries of a row that name it."""
        return row if self.labelled else row[:1]

    def of(self, row: Row, task: str) -> tuple[MeasuredJob, ...]:
        """Return the complete jobs of a row on a task."""
        return self.done.get((row, task), ())

    def number(
        self, row: Row, task: str, estimate: Callable[[MeasuredJob], Estimate], *, percent: bool, digits: int
    ) -> Number | None:
        """Return the mean over trainings of what `estimate` reads of a job; None where no job is done.

        All trainings are of the same texts, so the limits of the interval are means over trainings, too.
        """
        found = self.of(row, task)
        if not found:
            return None
        each = [estimate(one) for one in found]
        value, low, high = (_mean([getattr(one, name) for one in each]) for name in ("value", "low", "high"))
        drawn = self.results.plan.draws
        values = [
            (self.results.plan.draw(one.job.parts[0]).train_seed, e.value) for one, e in zip(found, each, strict=True)
        ]
        draws = Draws(means(values)) if drawn else None
        asked = sum(job.parts[2] == task and _row(self.results, job) == row for job in self.asked)
        partial = len(found) < asked
        shown = Number(value, percent, each[0].n, low, high, draws=draws, digits=digits, partial=partial)
        return self.flags.on(shown, [one.job for one in found])

    def notes(self) -> tuple[str, ...]:
        """Return the notes that all tables of measures of encoders have."""
        plan, standing = self.results.plan, self.results.standing
        existing = ", ".join(plan.suite.victims)
        return (
            *([f"Classifiers that exist have no frozen vectors and are not measured: {existing}."] if existing else []),
            *plan.suite.notes,
            *draw_notes(plan, self.asked),
            *variant_notes(plan, self.flags.behind(self.asked)),
            *selected_steps(plan),
            *self.flags.notes(self.asked),
            *missing("jobs", self.asked, standing),
        )

    def interval(self, kind: str) -> str:
        """Return a note on intervals of this kind, and on what they cover."""
        if self.results.plan.draws:
            return f"{kind} {COVERED.format(what='texts')}"
        return f"{kind} They cover the choice of texts, not differences between trainings."


def by_encoder(results: Results, name: str, options: BaseModel | None, tasks: Sequence[str] = ()) -> ByEncoder:
    """Collect the jobs of a measure of encoders.

    Args:
        options: what is set here chooses among jobs with several options.
        tasks: the tasks in the order in which they are shown; others come after them, as the plan has them.

    Raises StoreError as `measured` does.
    """
    plan = results.plan
    done: dict[tuple[Row, str], tuple[MeasuredJob, ...]] = {}
    for one in measured(results, name, options):
        at = _row(results, one.job), one.spec.task.name
        done[at] = (*done.get(at, ()), one)
    asked = tuple(jobs(results, name))
    there = dict.fromkeys(_row(results, job) for job in asked)
    wanted = [row for row in there if options is None or any(at == row for at, _ in done)]
    encoders = in_order(plan.suite.encoders, (encoder for encoder, _ in wanted))
    labels = tuple(dict.fromkeys(label for _, label in wanted))
    rows = tuple((encoder, label) for label in labels for encoder in encoders if (encoder, label) in wanted)
    return ByEncoder(results, asked, done, rows, in_order(tasks, (job.parts[2] for job in asked)))


def average(numbers: Sequence[Number | None]) -> Number | None:
    """Return the unweighted mean of independent numbers, with an interval.

    It is joined from the numbers' own intervals, the squares of the distances to the limits added up (Zou and Donner
    2008). The mean is None where a number is missing, has no value where one has none, and is withheld where one is.
    """
    there = [number for number in numbers if number is not None]
    if not there or len(there) < len(numbers):
        return None
    first = there[0]
    if flags := dict.fromkeys(flag for number in there for flag in number.withheld):
        return Number(None, first.percent, digits=first.digits, withheld=tuple(flags))
    values = [number.value for number in there if number.value is not None]
    if len(values) < len(there):
        return Number(None, first.percent, digits=first.digits)
    value = math.fsum(values) / len(values)
    below = [number.value - number.low for number in there if number.value is not None and number.low is not None]
    above = [number.high - number.value for number in there if number.value is not None and number.high is not None]
    known = len(below) == len(above) == len(there)
    low, high = (
        (value - math.hypot(*below) / len(there), value + math.hypot(*above) / len(there)) if known else (None,) * 2
    )
    partial, flagged = (any(getattr(number, name) for number in there) for name in ("partial", "flagged"))
    mean = Number(value, first.percent, low=low, high=high, digits=first.digits, draws=_draws(there), partial=partial)
    return replace(mean, flagged=flagged)


def _draws(numbers: Sequence[Number]) -> Draws | None:
    """Return the mean over tasks for each training that all of them have."""
    each = [dict(number.draws.means) for number in numbers if number.draws is not None]
    if len(each) < len(numbers):
        return None
    shared = [seed for seed in each[0] if all(seed in own for own in each)]
    return Draws(tuple((seed, math.fsum(own[seed] for own in each) / len(each)) for seed in shared))


def _row(results: Results, job: Job) -> Row:
    return results.plan.draw(job.parts[0]).encoder, job.parts[1]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
