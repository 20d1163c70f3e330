"""The table of a measure that declares columns, and its cells, which claims, comparisons and checks read.

A row of `run` is stored as one `MeasuredRow`: for each column the value of every unit, packed. So intervals have seeds
and trainings as levels, and two encoders are compared unit by unit, as with a metric of attacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from pydantic import BaseModel

from rbench.errors import JobError, StoreError
from rbench.measures._rows import Column, Mean, Row
from rbench.measures._rows import Share as ShareColumn
from rbench.measures._stored import attacks_behind, chosen, jobs, read_rows
from rbench.schema import AS_IS, Job, Meaning, MeasuredRow, MeasureOf, Outcome, Score
from rbench.score import Sample, Share, scored
from rbench.score.packed import packed, packed_numbers, unpacked, unpacked_numbers
from rbench.tables import Results, Table
from rbench.tables.aggregate import grid
from rbench.tables.cells import Cell, Grid, in_order, mean_of
from rbench.tables.draws import levels_note
from rbench.tables.draws import notes as draw_notes
from rbench.tables.notes import missing, seeds
from rbench.tables.results import Run
from rbench.tables.table import Entry, Number, best_of, groups_of

if TYPE_CHECKING:
    from rbench.tables.nested_means import Values

VERSION = 1
USES = ("score.packed",)

UNITS = "units"
"""The name under which a row keeps the names of its units, one a line."""
AXES = ("task", "attack", "encoder", "finetune")
"""The names of a cell, in the order in which tables have them."""


class Declaring(Protocol):
    """What is asked here of a measure (`rbench.measures.Measure`)."""

    name: str
    path: Path | None
    guide: ClassVar[str]
    reads: MeasureOf
    columns: tuple[Column, ...]
    Options: type[BaseModel]

    @property
    def asks_models(self) -> bool: ...

    def of_attack(self, options: Any, outcomes: Sequence[Outcome]) -> Row: ...

    def said(self) -> Mapping[str, Any]: ...


def stored(measure: Declaring, row: Any) -> MeasuredRow:
    """Return a row as a job stores it.

    Raises JobError where it is not a Row, lacks a column or has one too many, or has values that cannot be.
    """
    if not isinstance(row, Row):
        raise _wrong(measure, f"run returned {type(row).__name__}; a measure with columns yields Row")
    declared = [column.name for column in measure.columns]
    if row.values.keys() != {*declared}:
        raise _wrong(measure, f"a row has the values {', '.join(row.values)}, and columns are {', '.join(declared)}")
    if taken := {*row.names} & {*declared, UNITS}:
        raise _wrong(measure, f"a row has the name {taken.pop()}, which is a column's")
    names, numbers = dict(row.names), dict[str, float | None]()
    for column in measure.columns:
        _add(measure, column, row, names, numbers)
    if row.units is not None:
        names[UNITS] = "\n".join(row.units)
    return MeasuredRow(names=names, numbers=numbers)


def _add(measure: Declaring, column: Column, row: Row, names: dict[str, str], numbers: dict[str, float | None]) -> None:
    """Write the values of a column into what a row stores."""
    value = row.values[column.name]
    if not isinstance(column, ShareColumn | Mean):
        numbers[column.name] = None if value is None else float(value)  # type: ignore[arg-type]
        return
    units = np.asarray([] if value is None else value, dtype=np.float64)
    there = units[~np.isnan(units)]
    if units.ndim != 1 or (row.units is not None and len(row.units) != len(units)):
        raise _wrong(measure, f"{column.name} has the shape {units.shape}; expected a value for each unit")
    if isinstance(column, ShareColumn):
        if not np.isin(there, (0.0, 1.0)).all():
            raise _wrong(measure, f"{column.name} is a Share, and has values other than 0 and 1")
        names[column.name] = packed(np.nan_to_num(units).astype(bool))
        if len(there) < len(units):
            names[f"{column.name}_there"] = packed(~np.isnan(units))
    elif np.isinf(units).any():
        raise _wrong(measure, f"{column.name} has an infinite value")
    else:
        names[column.name] = packed_numbers(units)
    numbers |= {f"{column.name}_n": len(units), column.name: float(there.mean()) if len(there) else None}


def _wrong(measure: Declaring, said: str) -> JobError:
    return JobError(f"{measure.path}: {said}; see {measure.guide}")


# ----------------------------------------------------------------------------------------------------------- cells


@dataclass(frozen=True)
class RowCell(Cell):
    """All seeds of one row of a measure with columns."""

    measure: Declaring = field(kw_only=True, compare=False, repr=False)
    own: tuple[tuple[str, str], ...] = ()
    """The names that the row gave itself."""
    rows: Callable[[Job], Sequence[MeasuredRow]] = field(kw_only=True, compare=False, repr=False)
    """Reads what a job stored."""

    @property
    def jobs(self) -> list[Job]:
        """The jobs that its numbers stand on: of a row about one victim, the attacks on it alone."""
        if self.measure.reads != "attacks" or not self.measure.asks_models or not self.encoder:
            return super().jobs
        behind = (attacks_behind(self.results.plan, run.job) for run in self.runs)
        return [own[self.encoder, self.finetune] for own in behind if (self.encoder, self.finetune) in own]

    def _column(self, name: str) -> Column:
        return next(column for column in self.measure.columns if column.name == name)

    def _row(self, run: Run) -> MeasuredRow | None:
        """Return the row that is this one, of a job that is done; None where the job has no such row."""
        return next((row for row in self.rows(run.job) if _names(self.measure, row) == self.own), None)

    def _units(self, run: Run, name: str) -> np.ndarray[Any, Any] | None:
        """Return the value of each unit (n,), NaN where it is in no denominator; None where there are no units."""
        row, column = self._row(run), self._column(name)
        if row is None or not isinstance(column, ShareColumn | Mean):
            return None
        n = int(row.numbers[f"{name}_n"] or 0)
        try:
            if isinstance(column, Mean):
                return unpacked_numbers(row.names[name], n).astype(np.float64)
            hits = unpacked(row.names[name], n).astype(np.float64)
            if (there := row.names.get(f"{name}_there")) is not None:
                hits[~unpacked(there, n)] = np.nan
        except (KeyError, ValueError) as error:
            folder = self.results.store.folder(run.job)
            raise StoreError(f"{folder}: its rows cannot be read ({error}); delete the folder and run again") from None
        return hits

    def _sample(self, run: Run, name: str) -> Share | Sample | None:
        units = self._units(run, name)
        if units is None:
            return None
        there = units[~np.isnan(units)]
        return Share(int(there.sum()), len(there)) if self.shares(name) else Sample.of(there.tolist())

    def _score(self, run: Run, name: str) -> Score | None:
        sample = self._sample(run, name)
        if sample is not None:
            return scored(name, sample)
        row = self._row(run)
        return None if row is None else Score(name=name, value=row.numbers[name], n=0)

    def sampled(self, name: str) -> Score | None:
        """Return the mean over seeds, which see the same units; in a measure of attacks, all units of all seeds."""
        scores = [score for run in self.done if (score := self._score(run, name)) is not None]
        samples = [sample for run in self.done if (sample := self._sample(run, name)) is not None]
        if self.measure.reads != "attacks" or not samples:
            return mean_of(scores) if scores else None
        shares = [one for one in samples if isinstance(one, Share)]
        pooled: Share | Sample = Sample.pooled(one for one in samples if isinstance(one, Sample))
        if shares:
            pooled = Share(sum(one.hits for one in shares), sum(one.n for one in shares))
        attacks = self.jobs if self.encoder else []
        return scored(name, pooled, self.results.repeats(attacks) if attacks and pooled.n else len(self.done))

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        scores = ((run, self._score(run, name)) for run in self.done)
        return [(run.train_seed, score.value) for run, score in scores if score is not None]

    def values(self, run: Run, name: str) -> Values | None:
        units, row = self._units(run, name), self._row(run)
        if units is None or row is None:
            return None
        if (named := row.names.get(UNITS)) is None and self.measure.reads == "attacks":
            return None  # nobody says which units of two victims are the same
        places = range(len(units)) if named is None else named.split("\n")
        return {str(i): value for i, value in zip(places, units.tolist(), strict=True) if not math.isnan(value)}

    def shares(self, name: str) -> bool:
        return isinstance(self._column(name), ShareColumn)

    def meaning(self, name: str) -> Meaning:
        return self._column(name).meaning


def _names(measure: Declaring, row: MeasuredRow) -> tuple[tuple[str, str], ...]:
    """Return the names that a row gave itself, without what is packed."""
    ours = {UNITS, *(f"{column.name}{more}" for column in measure.columns for more in ("", "_there"))}
    return tuple((key, value) for key, value in row.names.items() if key not in ours)


def _of_job(measure: Declaring, results: Results, job: Job) -> dict[str, str]:
    """Return the names that a job of a measure has by what it reads, with the label of its options."""
    parts, spec = job.parts, job.measuring
    assert spec is not None
    if measure.reads == "encoders":
        return {"encoder": results.plan.draw(parts[0]).encoder, "task": spec.task.name, "label": parts[1]}
    if measure.reads == "victims":
        encoder = results.plan.draw(parts[0]).encoder
        return {"encoder": encoder, "task": parts[1], "finetune": parts[2], "label": parts[3]}
    return {"task": spec.task.name, "attack": spec.attack or "", "label": spec.what.label}


def _of_outcomes(measure: Declaring, options: Any, results: Results, job: Job) -> tuple[MeasuredRow, ...]:
    """Return the row that a measure without `run` makes of the outcomes of an attack."""
    outcomes = list(results.store.outcomes(job))
    row = measure.of_attack(options, outcomes)
    if isinstance(row, Row) and row.units is None:
        sizes = {np.size(value) for value in row.values.values() if np.ndim(value) == 1}  # type: ignore[arg-type]
        row = replace(row, units=[one.example_id for one in outcomes] if sizes == {len(outcomes)} else None)
    return (stored(measure, row),)


def _places(measure: Declaring, results: Results, asked: Sequence[Job]) -> dict[tuple[tuple[str, str], ...], list[Run]]:
    """Return the runs by the names that they have by what they read."""
    if not measure.asks_models:
        attacked = grid(results).cells.values()
        return {(*cell.at(*AXES).items(), ("label", "")): list(cell.runs) for cell in attacked}
    places: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for job in asked:
        trained = results.plan.draw(job.parts[0]).train_seed if measure.reads in ("encoders", "victims") else None
        run = Run.of(job, results.standing.records.get(job.key), trained)
        places.setdefault(tuple(_of_job(measure, results, job).items()), []).append(run)
    return places


def cells(
    measure: Declaring, results: Results, options: Any = None, wanted: Sequence[Job] | None = None
) -> Grid[RowCell]:
    """Return the rows of a measure as cells, done or not, in the order of the suite.

    Args:
        options: of a measure without `run`; None: its defaults.
        wanted: the jobs whose rows are returned; None: all.

    Raises StoreError where the suite does not ask for the measure.
    """
    suite, chosen_options = results.plan.suite, measure.Options() if options is None else options
    read: dict[str, Sequence[MeasuredRow]] = {}

    def rows(job: Job) -> Sequence[MeasuredRow]:
        if job.key not in read:
            made = measure.asks_models
            read[job.key] = (
                read_rows(results, job).rows if made else _of_outcomes(measure, chosen_options, results, job)
            )
        return read[job.key]

    asked = () if not measure.asks_models else jobs(results, measure.name) if wanted is None else wanted
    places = _places(measure, results, asked)
    several = len({dict(place)["label"] for place in places}) > 1
    found: dict[tuple[str, ...], RowCell] = {}
    for place, runs in places.items():
        kinds = dict.fromkeys(_names(measure, row) for run in runs if run.done for row in rows(run.job)) or {(): None}
        for own in kinds:
            named = {**dict(place), **dict(own)}
            axes = {axis: named.get(axis, "") for axis in AXES}
            labels = [named["label"]] * several + [value for key, value in own if key not in AXES]
            cell = RowCell(
                runs=tuple(runs),
                results=results,
                drawn=bool(results.plan.draws),
                label="/".join(labels),
                measure=measure,
                own=own,
                rows=rows,
                encoder=axes["encoder"],
                task=axes["task"],
                finetune=axes["finetune"],
                attack=axes["attack"],
            )
            found[(*axes.values(), cell.label)] = cell
    orders = (
        (*suite.tasks, *dict.fromkeys(key[0] for key in found)),
        [choice.label for choice in suite.attacks],
        suite.lineup,
        (*(choice.label for choice in suite.finetune), AS_IS),
        list(dict.fromkeys(key[4] for key in found)),
    )
    there = [in_order(order, (key[i] for key in found)) for i, order in enumerate(orders)]
    keys = sorted(found, key=lambda key: [own.index(name) for own, name in zip(there, key, strict=True)])
    axes_ = dict(zip(("tasks", "attacks", "encoders", "finetunes", "labels"), there, strict=True))
    return Grid(results, {key: found[key] for key in keys}, **axes_, spoken=_spoken)


def _spoken(cell: RowCell) -> list[tuple[str, None]]:
    """A claim names a row of an encoder. One that is about several victims has no name there."""
    return [(cell.task, None)] if cell.encoder else []


# ----------------------------------------------------------------------------------------------------------- table


def table(measure: Declaring, options: Any, results: Results) -> Table:
    """Make the table: a row for each row of the measure, with its columns.

    Raises StoreError where the suite does not ask for the measure, or no job with these options is done.
    """
    asked = _asked(measure, options, results)
    found = cells(measure, results, options, asked)
    shown = list(found.cells.values())
    asked = asked or found.jobs
    axes = [axis for axis in AXES if _told(axis, [getattr(cell, axis) for cell in shown])]
    labelled = any(cell.label for cell in shown)
    numbers = [[cell.number(column.name) for cell in shown] for column in measure.columns]
    sizes = [[_n(column, number) for number in own] for column, own in zip(measure.columns, numbers, strict=True)]
    counted = [i for i, own in enumerate(sizes) if any(own)]
    one_n = len({tuple(sizes[i]) for i in counted}) == 1
    competing = [[i for i, cell in enumerate(shown) if cell.units == units] for units in {c.units: None for c in shown}]
    marked = [_best(column, own, competing) for column, own in zip(measure.columns, numbers, strict=True)]
    rows: list[tuple[Entry, ...]] = []
    for i, cell in enumerate(shown):
        named: list[Entry] = [getattr(cell, axis) for axis in axes] + ([cell.label] if labelled else [])
        if one_n:
            named.append(sizes[counted[0]][i])
        for j, own in enumerate(marked):
            named += [sizes[j][i]] if j in counted and not one_n else []
            named.append(own[i])
        rows.append(tuple(named))
    header = [{"finetune": "Fine-tuning"}.get(axis, axis.capitalize()) for axis in axes]
    header += [_heading(measure, shown)] if labelled else []
    header += ["n"] if one_n else []
    for j, column in enumerate(measure.columns):
        header += ["n"] if j in counted and not one_n else []
        header.append(column.meaning.title)
    definitions = "; ".join(
        column.definition if len(measure.columns) == 1 else f"{column.meaning.title}: {column.definition}"
        for column in measure.columns
    )
    ends = {column.best for column in measure.columns}
    title = str(measure.said()["title"]).rstrip(".") or measure.name
    first = measure.columns[0].meaning
    about = Meaning(title, definitions, None if len(ends) > 1 else first.best, first.percent, first.digits)
    every = found.jobs if any(cell.encoder for cell in shown) else asked
    return Table(
        metric=measure.name,
        header=tuple(header),
        rows=tuple(rows),
        groups=groups_of(rows) if len(axes) > 1 else frozenset(),
        cells=tuple(_for_programs(measure, cell) for cell in shown),
        notes=(
            *results.plan.suite.notes,
            *(draw_notes(results.plan, every) or ([seeds(asked)] if measure.reads in ("attacks", "victims") else [])),
            *results.flags.notes(every),
            *missing("jobs", asked, results.standing),
        ),
        interval=_interval(measure, shown),
        flags=results.flags.listed(every),
        about=about,
        best="the better end of each column" if len(ends - {None}) > 1 else "",
    )


def _asked(measure: Declaring, options: Any, results: Results) -> list[Job]:
    """Return the jobs of a measure with the options that are set here; none of one without `run`."""
    if not measure.asks_models:
        return []
    done, every = chosen(results, measure.name, options), jobs(results, measure.name)
    if not options.model_fields_set:
        return every
    return [job for job in every if any(_same_options(job, one) for one in done)]


def _same_options(job: Job, other: Job) -> bool:
    assert job.measuring is not None and other.measuring is not None
    return job.measuring.what == other.measuring.what


def _told(axis: str, names: Sequence[str]) -> bool:
    """Whether a table has a column for an axis: some row has such a name, and strategies only where they differ."""
    return len({*names}) > 1 if axis == "finetune" else any(names)


def _n(column: Column, number: Number | None) -> int | None:
    return number.n if number is not None and isinstance(column, ShareColumn | Mean) else None


def _best(column: Column, numbers: list[Number | None], competing: Sequence[Sequence[int]]) -> list[Number | None]:
    """Mark the best number among the rows of the same units, such as the texts of a task."""
    marked = list(numbers)
    for places in competing:
        for i, number in zip(places, best_of([numbers[i] for i in places], column.best), strict=True):
            marked[i] = number
    return marked


def _heading(measure: Declaring, shown: Sequence[RowCell]) -> str:
    keys = dict.fromkeys(key for cell in shown for key, _ in cell.own if key not in AXES)
    return "/".join(key.replace("_", " ").capitalize() for key in keys) or "Options"


def _interval(measure: Declaring, shown: Sequence[RowCell]) -> str:
    """Say which intervals the columns have, and what they cover."""
    kinds = [type(column) for column in measure.columns]
    said = " and ".join(
        text for kind, text in ((ShareColumn, "Wilson's for shares"), (Mean, "Student's t for means")) if kind in kinds
    )
    if not said:
        return ""
    if any(cell.levelled(column.name) for cell in shown for column in measure.columns):
        return levels_note(said, "texts", cells=0, missing="rows")
    return f"95% intervals: {said}. They cover the choice of texts, not differences between seeds."


def _for_programs(measure: Declaring, cell: RowCell) -> dict[str, Any]:
    """Return a row for CSV and JSON: its names, then each number with its n and its interval."""
    told: dict[str, Any] = {axis: getattr(cell, axis) for axis in AXES if getattr(cell, axis)}
    told |= {key: value for key, value in cell.own if key not in AXES}
    told |= {"label": cell.label} if cell.label and not cell.own else {}
    for column in measure.columns:
        own = cell.told(column.name)
        told[column.name] = own.pop("value")
        if not isinstance(column, ShareColumn | Mean):
            own = {"flagged": own["flagged"]}
        told |= {f"{column.name}_{key}": value for key, value in own.items()}
    return told | {"seeds": cell.seeds, "flags": cell.results.flags.told(cell.jobs)}
