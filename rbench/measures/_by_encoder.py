"""What measures of encoders stored, as cells of encoder, label and task. Trainings are the seeds of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from pydantic import BaseModel

from rbench.measures._stored import MeasuredJob, chosen, jobs_of_measure, read_rows
from rbench.schema import Job, Meaning, MeasuredRow, Score
from rbench.score.packed import unpack_hits
from rbench.tables import Results
from rbench.tables.cells import Grid, MeasuredCell, NumberReading, gather_cells, mean_score, read_values_by_place
from rbench.tables.draws import EXAMPLES_COVERED
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import differing_model_notes, selected_step_notes, unfinished_notes, variant_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Number

EncoderRow = tuple[str, str]
"""Encoder, as the suite names it, and the measure's label."""


@dataclass(frozen=True)
class EncoderGrid(Grid[MeasuredCell]):
    """The cells of a measure of encoders, by label, encoder and task."""

    asked: tuple[Job, ...] = ()
    """All jobs, done or not, and with whatever options."""
    stored: Callable[[Job], MeasuredJob] = field(kw_only=True)
    """Reads a job that is done."""

    @property
    def rows(self) -> tuple[EncoderRow, ...]:
        return tuple(dict.fromkeys((cell.encoder, cell.label) for cell in self.cells.values()))

    @property
    def labelled(self) -> bool:
        """Whether the suite asks for the measure more than once, so that rows need its label."""
        return len({label for _, label in self.rows}) > 1

    @property
    def named(self) -> tuple[str, ...]:
        """The headings of the entries that name a row."""
        return ("Encoder", "Options") if self.labelled else ("Encoder",)

    def names(self, row: EncoderRow) -> tuple[str, ...]:
        """Return the entries of a row that name it."""
        return row if self.labelled else row[:1]

    def cell(self, row: EncoderRow, task: str) -> MeasuredCell | None:
        """Return a cell of which a job is done."""
        known = self.cells.get((row[1], row[0], task))
        return known if known is not None and known.present else None

    def of(self, row: EncoderRow, task: str) -> list[MeasuredJob]:
        """Return the complete jobs of a row on a task."""
        cell = self.cell(row, task)
        return [self.stored(run.job) for run in cell.done] if cell is not None else []

    def number(self, row: EncoderRow, task: str, name: str) -> Number | None:
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
            *variant_notes(self.plan, self.flags.jobs_behind(self.asked)),
            *selected_step_notes(self.plan),
            *differing_model_notes(self.plan),
            *self.flags.notes(self.asked),
            *unfinished_notes("jobs", self.asked, self.standing),
        )

    def interval(self, kind: str) -> str:
        """Return a note on intervals of this kind, and on what they cover."""
        if self.plan.draws:
            return f"{kind} {EXAMPLES_COVERED.format(what='texts')}"
        return f"{kind} They cover the choice of texts, not differences between trainings."


def collect_by_encoder(
    results: Results,
    name: str,
    options: BaseModel | None,
    read: tuple[Meaning, Callable[[MeasuredJob, str], Score]],
    tasks: Sequence[str] = (),
    *,
    hits: Callable[[MeasuredJob, str], MeasuredRow | None] | None = None,
    units: Callable[[MeasuredJob, str], Iterable[float] | None] | None = None,
    spoken: Callable[[MeasuredCell], Iterable[tuple[str, str | None]]] = lambda cell: [(cell.task, None)],
    planned: bool = False,
) -> EncoderGrid:
    """Collect the jobs of a measure of encoders.

    Args:
        options: what is set here chooses among jobs with several options.
        read: the scale of its numbers, and what reads one of a job by name. Trainings are of the same texts, so the
            limits of their mean are means, too.
        tasks: the tasks in the order in which they are shown; others come after them, as the plan has them.
        hits: returns the row that says of each text whether it is a hit, for numbers that are shares of hits.
        units: returns the values of which a number is the mean, for numbers that are no such shares.
        spoken: as in `AttackGrid`.
        planned: whether no job need be done.

    Raises StoreError as `measured` does.
    """
    plan, planned_jobs, (meaning, score) = results.plan, tuple(jobs_of_measure(results, name)), read
    wanted_jobs = planned_jobs if planned else chosen(results, name, options)
    stored: dict[str, MeasuredJob] = {}

    def stored_of(job: Job) -> MeasuredJob:
        return stored.get(job.key) or stored.setdefault(job.key, read_rows(results, job))

    def values(run: SeedRun, number: str) -> Values | None:
        if units is not None:
            return read_values_by_place(results, run.job, lambda: units(stored_of(run.job), number))
        return (
            read_values_by_place(results, run.job, lambda: _unpack_hits(hits(stored_of(run.job), number)))
            if hits is not None
            else None
        )

    reading = NumberReading(
        meaning,
        lambda run, number: score(stored_of(run.job), number),
        mean_score,
        values,
        shares=hits is not None,
        levels=False,
    )
    # All jobs first, so that the order of rows is the suite's whatever options are asked for; then those are chosen.
    jobs_with_names = [(job, _names_of(job, plan.draw(job.parts[0]).encoder)) for job in planned_jobs]
    orders = {
        "label": dict.fromkeys(job.parts[1] for job in planned_jobs),
        "encoder": plan.suite.encoders,
        "task": tasks,
    }
    cells, axes = gather_cells(results, jobs_with_names, orders, partial(MeasuredCell, read=reading))
    if options is not None:
        asked_rows = {
            (stored_of["label"], stored_of["encoder"]) for job, stored_of in jobs_with_names if job in wanted_jobs
        }
        cells = {key: cell for key, cell in cells.items() if key[:2] in asked_rows}
    return EncoderGrid(results, cells, **axes, asked=planned_jobs, stored=stored_of, spoken=spoken)


def _names_of(job: Job, encoder: str) -> dict[str, str]:
    return {"encoder": encoder, "label": job.parts[1], "task": job.parts[2]}


def _unpack_hits(row: MeasuredRow | None) -> Iterable[float] | None:
    if row is None or (packed_hits := row.names.get("hits")) is None:
        return None
    return unpack_hits(packed_hits, int(row.numbers["n"] or 0))
