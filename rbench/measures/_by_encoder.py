"""What measures of encoders stored, as cells of encoder, label and task. Trainings are the seeds of a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pydantic import BaseModel

from rbench.measures._stored import MeasuredJob, jobs, measured
from rbench.spec import Job, Meaning, Score
from rbench.tables import Results
from rbench.tables.cells import Grid, Measured, Reading, gathered, mean_of
from rbench.tables.draws import COVERED
from rbench.tables.draws import notes as draw_notes
from rbench.tables.notes import missing, selected_steps
from rbench.tables.results import Run
from rbench.tables.table import Number
from rbench.tables.variants import notes as variant_notes

Row = tuple[str, str]
"""Encoder, as the suite names it, and the measure's label."""


@dataclass(frozen=True)
class ByEncoder(Grid[Measured]):
    """The cells of a measure of encoders, by label, encoder and task."""

    asked: tuple[Job, ...] = ()
    """All jobs, done or not, and with whatever options."""
    stored: Mapping[str, MeasuredJob] = field(default_factory=dict)
    """The jobs that are done, by key."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(dict.fromkeys((cell.encoder, cell.label) for cell in self.cells.values()))

    @property
    def labelled(self) -> bool:
        """Whether the suite asks for the measure more than once, so that rows need its label."""
        return len({label for _, label in self.rows}) > 1

    @property
    def named(self) -> tuple[str, ...]:
        """The headings of the entries that name a row."""
        return ("Encoder", "Options") if self.labelled else ("Encoder",)

    def names(self, row: Row) -> tuple[str, ...]:
        """Return the entries of a row that name it."""
        return row if self.labelled else row[:1]

    def cell(self, row: Row, task: str) -> Measured | None:
        """Return a cell of which a job is done."""
        found = self.cells.get((row[1], row[0], task))
        return found if found is not None and found.present else None

    def of(self, row: Row, task: str) -> list[MeasuredJob]:
        """Return the complete jobs of a row on a task."""
        cell = self.cell(row, task)
        return [self.stored[run.job.key] for run in cell.done] if cell is not None else []

    def number(self, row: Row, task: str, name: str) -> Number | None:
        """Return the mean of a number over trainings; None where no job is done."""
        cell = self.cell(row, task)
        return cell.number(name) if cell is not None else None

    def common_notes(self) -> tuple[str, ...]:
        """Return the notes that all tables of measures of encoders have."""
        existing = ", ".join(self.plan.suite.victims)
        return (
            *([f"Classifiers that exist have no frozen vectors and are not measured: {existing}."] if existing else []),
            *self.plan.suite.notes,
            *draw_notes(self.plan, self.asked),
            *variant_notes(self.plan, self.flags.behind(self.asked)),
            *selected_steps(self.plan),
            *self.flags.notes(self.asked),
            *missing("jobs", self.asked, self.standing),
        )

    def interval(self, kind: str) -> str:
        """Return a note on intervals of this kind, and on what they cover."""
        if self.plan.draws:
            return f"{kind} {COVERED.format(what='texts')}"
        return f"{kind} They cover the choice of texts, not differences between trainings."


def by_encoder(
    results: Results,
    name: str,
    options: BaseModel | None,
    read: tuple[Meaning, Callable[[MeasuredJob, str], Score]],
    tasks: Sequence[str] = (),
) -> ByEncoder:
    """Collect the jobs of a measure of encoders.

    Args:
        options: what is set here chooses among jobs with several options.
        read: the scale of its numbers, and what reads one of a job by name. Trainings are of the same texts, so the
            limits of their mean are means, too.
        tasks: the tasks in the order in which they are shown; others come after them, as the plan has them.

    Raises StoreError as `measured` does.
    """
    plan, asked = results.plan, tuple(jobs(results, name))
    stored = {one.job.key: one for one in measured(results, name, options)}
    about, score = read

    def scored(run: Run, number: str) -> Score | None:
        return score(stored[run.job.key], number) if run.job.key in stored else None

    reading = Reading(about, scored, mean_of)
    named = [(job, _names(job, plan.draw(job.parts[0]).encoder)) for job in asked]
    orders = {"label": dict.fromkeys(job.parts[1] for job in asked), "encoder": plan.suite.encoders, "task": tasks}
    cells, axes = gathered(results, named, orders, partial(Measured, read=reading))
    if options is not None:
        there = {
            (cell.label, cell.encoder) for cell in cells.values() if stored.keys() & {job.key for job in cell.jobs}
        }
        cells = {key: cell for key, cell in cells.items() if key[:2] in there}
    return ByEncoder(results, cells, **axes, asked=asked, stored=stored)


def _names(job: Job, encoder: str) -> dict[str, str]:
    return {"encoder": encoder, "label": job.parts[1], "task": job.parts[2]}
