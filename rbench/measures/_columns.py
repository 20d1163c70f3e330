"""The table of a measure that declares columns, and its cells, which claims, comparisons and checks read.

A row of `run` is stored as one `MeasuredRow`: for each column the value of every unit, packed. So intervals have seeds
and trainings as levels, and two encoders are compared unit by unit, as with a metric of attacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from pydantic import BaseModel

from rbench.errors import JobError, StoreError
from rbench.measures._rows import Column, Mean, Row
from rbench.measures._rows import Share as ShareColumn
from rbench.measures._stored import attacks_behind, chosen, jobs_of_measure, read_rows
from rbench.schema import AS_IS, Job, Meaning, MeasuredRow, MeasureOf, Outcome, Score
from rbench.score import Proportion, Sample, make_score
from rbench.score.packed import pack_hits, pack_numbers, unpack_hits, unpack_numbers
from rbench.tables import Results, Table
from rbench.tables.aggregate import attack_grid
from rbench.tables.cells import Cell, Grid, in_order, mean_score
from rbench.tables.draws import levels_note
from rbench.tables.draws import notes as draw_notes
from rbench.tables.notes import seeds_note, unfinished_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Number, TableEntry, group_starts, mark_best_of_column

if TYPE_CHECKING:
    from rbench.tables.nested_means import Values

# Part of the key of every measure with columns (config/versions.py): raise it if rows are packed in another way.
VERSION = 1
USES = ("score.packed",)

UNITS = "units"
"""The name under which a row keeps the names of its units, one a line."""
AXES = ("task", "attack", "encoder", "finetune")
"""The names of a cell, in the order in which tables have them."""


class DeclaredMeasure(Protocol):
    """What is asked here of a measure (`rbench.measures.Measure`)."""

    name: str
    path: Path | None
    guide: ClassVar[str]
    reads: MeasureOf
    Options: type[BaseModel]

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def asks_models(self) -> bool: ...

    def of_attack(self, options: Any, outcomes: Sequence[Outcome]) -> Row: ...

    def said(self) -> Mapping[str, Any]: ...


def store_row(measure: DeclaredMeasure, row: Any) -> MeasuredRow:
    """Return a row as a job stores it. Raises JobError where it has values that cannot be."""
    names, numbers = dict(row.names), dict[str, float | None]()
    if undeclared := row.values.keys() - {column.name for column in measure.columns}:
        raise JobError(f"{measure.path}: {', '.join(sorted(undeclared))}: no column of this name is declared")
    for column in measure.columns:
        _pack_column(measure, column, row, names, numbers)
    if row.units is not None:
        names[UNITS] = "\n".join(row.units)
    return MeasuredRow(names=names, numbers=numbers)


def _pack_column(
    measure: DeclaredMeasure, column: Column, row: Row, names: dict[str, str], numbers: dict[str, float | None]
) -> None:
    """Write the values of a column into what a row stores."""
    value = row.values[column.name]
    if not isinstance(column, ShareColumn | Mean):
        numbers[column.name] = None if value is None else float(value)  # type: ignore[arg-type]
        return
    units = np.asarray([] if value is None else value, dtype=np.float64)
    known_values = units[~np.isnan(units)]
    if units.ndim != 1 or (row.units is not None and len(row.units) != len(units)):
        raise JobError(f"{measure.path}: {column.name} has the shape {units.shape}; expected a value for each unit")
    if isinstance(column, ShareColumn):
        if not np.isin(known_values, (0.0, 1.0)).all():
            raise JobError(f"{measure.path}: {column.name} is a Share, and has values other than 0 and 1")
        names[column.name] = pack_hits(np.nan_to_num(units).astype(bool))
        if len(known_values) < len(units):
            # A bit cannot be NaN, so a second column says which units are in the denominator.
            names[f"{column.name}_there"] = pack_hits(~np.isnan(units))
    else:
        names[column.name] = pack_numbers(units)
    numbers |= {f"{column.name}_n": len(units), column.name: float(known_values.mean()) if len(known_values) else None}


# ----------------------------------------------------------------------------------------------------------- cells


@dataclass(frozen=True)
class MeasureRowCell(Cell):
    """All seeds of one row of a measure with columns."""

    measure: DeclaredMeasure = field(kw_only=True, compare=False, repr=False)
    own: tuple[tuple[str, str], ...] = ()
    """The names that the row gave itself."""
    rows: Callable[[Job], Sequence[MeasuredRow]] = field(kw_only=True, compare=False, repr=False)
    """Reads what a job stored."""

    @property
    def jobs(self) -> list[Job]:
        """The jobs that its numbers stand on: of a row about one victim, the attacks on it alone."""
        if self.measure.reads != "attacks" or not self.measure.asks_models or not self.encoder:
            return super().jobs
        victim = (self.encoder, self.finetune)
        attacks_by_victim = [attacks_behind(self.results.plan, run.job) for run in self.runs]
        return [attacks[victim] for attacks in attacks_by_victim if victim in attacks]

    def _column(self, name: str) -> Column:
        return next(column for column in self.measure.columns if column.name == name)

    def _row(self, run: SeedRun) -> MeasuredRow | None:
        """Return the row that is this one, of a job that is done; None where the job has no such row."""
        return next((row for row in self.rows(run.job) if _names_of_row(self.measure, row) == self.own), None)

    def _units(self, run: SeedRun, name: str) -> np.ndarray[Any, Any] | None:
        """Return the value of each unit (n,), NaN where it is in no denominator; None where there are no units."""
        row, column = self._row(run), self._column(name)
        if row is None or not isinstance(column, ShareColumn | Mean):
            return None
        num_units = int(row.numbers[f"{name}_n"] or 0)
        try:
            if isinstance(column, Mean):
                return unpack_numbers(row.names[name], num_units).astype(np.float64)
            hits = unpack_hits(row.names[name], num_units).astype(np.float64)
            if (known_bits := row.names.get(f"{name}_there")) is not None:
                hits[~unpack_hits(known_bits, num_units)] = np.nan
        except (KeyError, ValueError) as error:
            folder = self.results.store.folder(run.job)
            raise StoreError(f"{folder}: its rows cannot be read ({error}); delete the folder and run again") from None
        return hits

    def _sample(self, run: SeedRun, name: str) -> Proportion | Sample | None:
        units = self._units(run, name)
        if units is None:
            return None
        known_values = units[~np.isnan(units)]
        if self.shares(name):
            return Proportion(int(known_values.sum()), len(known_values))
        return Sample.of(known_values.tolist())

    def _score(self, run: SeedRun, name: str) -> Score | None:
        sample = self._sample(run, name)
        if sample is not None:
            return make_score(name, sample)
        row = self._row(run)
        return None if row is None else Score(name=name, value=row.numbers[name], n=0)

    def sampled(self, name: str) -> Score | None:
        """Return the mean over seeds, which see the same units; in a measure of attacks, all units of all seeds."""
        samples = [self._sample(run, name) for run in self.done]
        shares = [sample for sample in samples if isinstance(sample, Proportion)]
        means = [sample for sample in samples if isinstance(sample, Sample)]
        if self.measure.reads != "attacks" or not (shares or means):
            scores = [score for score in (self._score(run, name) for run in self.done) if score is not None]
            return mean_score(scores) if scores else None
        # A column has samples of one kind.
        pooled: Proportion | Sample = Sample.pooled(means)
        if shares:
            pooled = Proportion(sum(share.hits for share in shares), sum(share.n for share in shares))
        attacks = self.jobs if self.encoder else []
        return make_score(name, pooled, self.results.repeats(attacks) if attacks and pooled.n else len(self.done))

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        scores = ((run, self._score(run, name)) for run in self.done)
        return [(run.train_seed, score.value) for run, score in scores if score is not None]

    def values(self, run: SeedRun, name: str) -> Values | None:
        units, row = self._units(run, name), self._row(run)
        if units is None or row is None:
            return None
        unit_names = row.names.get(UNITS)
        if unit_names is None and self.measure.reads == "attacks":
            return None  # nobody says which units of two victims are the same
        places = range(len(units)) if unit_names is None else unit_names.split("\n")
        return {str(unit): value for unit, value in zip(places, units.tolist(), strict=True) if not math.isnan(value)}

    def shares(self, name: str) -> bool:
        return isinstance(self._column(name), ShareColumn)

    def meaning(self, name: str) -> Meaning:
        return self._column(name).meaning


def _names_of_row(measure: DeclaredMeasure, row: MeasuredRow) -> tuple[tuple[str, str], ...]:
    """Return the names that a row gave itself, without what is packed."""
    packed_names = {UNITS}
    for column in measure.columns:
        packed_names |= {column.name, f"{column.name}_there"}
    return tuple((key, value) for key, value in row.names.items() if key not in packed_names)


def _names_of_job(measure: DeclaredMeasure, results: Results, job: Job) -> dict[str, str]:
    """Return the names that a job of a measure has by what it reads, with the label of its options."""
    parts, spec = job.parts, job.measuring
    assert spec is not None
    if measure.reads == "encoders":
        return {"encoder": results.plan.draw(parts[0]).encoder, "task": spec.task.name, "label": parts[1]}
    if measure.reads == "victims":
        encoder = results.plan.draw(parts[0]).encoder
        return {"encoder": encoder, "task": parts[1], "finetune": parts[2], "label": parts[3]}
    return {"task": spec.task.name, "attack": spec.attack or "", "label": spec.what.label}


def _rows_of_outcomes(measure: DeclaredMeasure, options: Any, results: Results, job: Job) -> tuple[MeasuredRow, ...]:
    """Return the row that a measure without `run` makes of the outcomes of an attack."""
    outcomes = list(results.store.outcomes(job))
    row = measure.of_attack(options, outcomes)
    if isinstance(row, Row) and row.units is None:
        sizes = {np.size(value) for value in row.values.values() if np.ndim(value) == 1}  # type: ignore[arg-type]
        row = replace(row, units=[outcome.example_id for outcome in outcomes] if sizes == {len(outcomes)} else None)
    return (store_row(measure, row),)


def _runs_by_names(
    measure: DeclaredMeasure, results: Results, measured_jobs: Sequence[Job]
) -> dict[tuple[tuple[str, str], ...], list[SeedRun]]:
    """Return the runs by the names that they have by what they read."""
    if not measure.asks_models:
        attacked = attack_grid(results).cells.values()
        return {(*cell.at(*AXES).items(), ("label", "")): list(cell.runs) for cell in attacked}
    places: dict[tuple[tuple[str, str], ...], list[SeedRun]] = {}
    for job in measured_jobs:
        train_seed = results.plan.draw(job.parts[0]).train_seed if measure.reads in ("encoders", "victims") else None
        run = SeedRun.of(job, results.standing.records.get(job.key), train_seed)
        places.setdefault(tuple(_names_of_job(measure, results, job).items()), []).append(run)
    return places


def _runs_of_victim(
    measure: DeclaredMeasure, results: Results, runs: Sequence[SeedRun], victim: tuple[str, str]
) -> tuple[SeedRun, ...]:
    """Return the runs of a row; of one about a victim of attacks each has the training seed of its encoder.

    With `train_seeds` a measure has a job for each training. An encoder that rbench does not train is attacked once,
    and stands in all of these jobs.
    """
    by_attack: dict[str, SeedRun] = {}
    for run in runs if measure.reads == "attacks" and measure.asks_models else ():
        attack = attacks_behind(results.plan, run.job).get(victim)
        if attack is not None:
            train_seed = results.plan.draw(attack.parts[0]).train_seed
            by_attack.setdefault(attack.key, replace(run, train_seed=train_seed))
    return tuple(by_attack.values()) or tuple(runs)


def build_cells(
    measure: DeclaredMeasure, results: Results, options: Any = None, wanted: Sequence[Job] | None = None
) -> Grid[MeasureRowCell]:
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
            if measure.asks_models:
                read[job.key] = read_rows(results, job).rows
            else:
                read[job.key] = _rows_of_outcomes(measure, chosen_options, results, job)
        return read[job.key]

    measured_jobs: Sequence[Job] = ()
    if measure.asks_models:
        measured_jobs = jobs_of_measure(results, measure.name) if wanted is None else wanted
    runs_by_names = _runs_by_names(measure, results, measured_jobs)
    several_labels = len({dict(names)["label"] for names in runs_by_names}) > 1
    by_key: dict[tuple[str, ...], MeasureRowCell] = {}
    for names, runs in runs_by_names.items():
        distinct_names: dict[tuple[tuple[str, str], ...], None] = {}
        for run in runs:
            if run.done:
                distinct_names |= dict.fromkeys(_names_of_row(measure, row) for row in rows(run.job))
        # A job that is not done has no rows yet. It still gets a cell, so that the table shows what is missing.
        for row_names in distinct_names or [()]:
            all_names = dict(names) | dict(row_names)
            axes = {axis: all_names.get(axis, "") for axis in AXES}
            labels = [all_names["label"]] if several_labels else []
            labels += [value for key, value in row_names if key not in AXES]
            cell = MeasureRowCell(
                runs=_runs_of_victim(measure, results, runs, (axes["encoder"], axes["finetune"])),
                results=results,
                drawn=bool(results.plan.draws),
                label="/".join(labels),
                measure=measure,
                own=row_names,
                rows=rows,
                encoder=axes["encoder"],
                task=axes["task"],
                finetune=axes["finetune"],
                attack=axes["attack"],
            )
            by_key[(*axes.values(), cell.label)] = cell
    # In the order of AXES, and then labels.
    orders = (
        (*suite.tasks, *dict.fromkeys(key[0] for key in by_key)),
        [choice.label for choice in suite.attacks],
        suite.lineup,
        (*(choice.label for choice in suite.finetune), AS_IS),
        list(dict.fromkeys(key[4] for key in by_key)),
    )
    axis_orders = [in_order(order, (key[i] for key in by_key)) for i, order in enumerate(orders)]

    def place(key: tuple[str, ...]) -> list[int]:
        return [axis_order.index(name) for axis_order, name in zip(axis_orders, key, strict=True)]

    tasks, attacks, encoders, finetunes, labels_in_order = axis_orders
    return Grid(
        results,
        {key: by_key[key] for key in sorted(by_key, key=place)},
        tasks=tasks,
        attacks=attacks,
        encoders=encoders,
        finetunes=finetunes,
        labels=labels_in_order,
        spoken=_claim_names,
    )


def _claim_names(cell: MeasureRowCell) -> list[tuple[str, None]]:
    """A claim names a row of an encoder. One that is about several victims has no name there."""
    return [(cell.task, None)] if cell.encoder else []


# ----------------------------------------------------------------------------------------------------------- table


def build_table(measure: DeclaredMeasure, options: Any, results: Results) -> Table:
    """Make the table: a row for each row of the measure, with its columns.

    Raises StoreError where the suite does not ask for the measure, or no job with these options is done.
    """
    asked = asked_jobs(measure, options, results)
    found = build_cells(measure, results, options, asked)
    shown = list(found.cells.values())
    asked = asked or found.jobs
    axes = [axis for axis in AXES if _has_column(axis, [getattr(cell, axis) for cell in shown])]
    header = ["Fine-tuning" if axis == "finetune" else axis.capitalize() for axis in axes]
    table_columns: list[Sequence[TableEntry]] = [[getattr(cell, axis) for cell in shown] for axis in axes]
    compared_within = [axis for axis in axes if axis in ("task", "attack")]
    if any(cell.label for cell in shown):
        header.append(_label_heading(measure, shown))
        compared_within.append(header[-1].lower())
        table_columns.append([cell.label for cell in shown])
    numbers = {column.name: [cell.number(column.name) for cell in shown] for column in measure.columns}
    sizes = {column.name: [_size_of(column, number) for number in numbers[column.name]] for column in measure.columns}
    distinct_sizes = {tuple(column_sizes) for column_sizes in sizes.values() if any(column_sizes)}
    # One column of n where all numbers have the same, otherwise one before each column of numbers.
    has_one_n = len(distinct_sizes) == 1
    if has_one_n:
        header.append("n")
        table_columns += distinct_sizes
    groups = _group_comparable(shown)
    for column in measure.columns:
        if not has_one_n and any(sizes[column.name]):
            header.append("n")
            table_columns.append(sizes[column.name])
        header.append(column.meaning.title)
        table_columns.append(_mark_best(column, numbers[column.name], groups))
    rows: list[tuple[TableEntry, ...]] = list(zip(*table_columns, strict=True))
    definitions = [f"{column.meaning.title}: {column.definition}" for column in measure.columns]
    if len(definitions) == 1:
        definitions = [measure.columns[0].definition]
    ends = {column.best for column in measure.columns}
    title = str(measure.said()["title"]).rstrip(".") or measure.name
    first = measure.columns[0].meaning
    best_end = None if len(ends) > 1 else first.best
    among = f"of each {', '.join(compared_within)} and column" if compared_within else "of each column"
    about = Meaning(title, "; ".join(definitions), best_end, first.percent, first.digits, among=among)
    every = found.jobs if any(cell.encoder for cell in shown) else asked
    seed_notes = draw_notes(results.plan, every)
    if not seed_notes and measure.reads in ("attacks", "victims"):
        seed_notes = [seeds_note(asked)]
    return Table(
        metric=measure.name,
        header=tuple(header),
        rows=tuple(rows),
        groups=group_starts(rows) if len(axes) > 1 else frozenset(),
        cells=tuple(_program_row(measure, cell) for cell in shown),
        notes=(
            *results.plan.suite.notes,
            *seed_notes,
            *results.flags.notes(every),
            *unfinished_notes("jobs", asked, results.standing),
        ),
        interval=_describe_interval(measure, shown),
        flags=results.flags.listed(every),
        about=about,
        best="the better end of each column" if len(ends - {None}) > 1 else "",
    )


def asked_jobs(measure: DeclaredMeasure, options: Any, results: Results) -> list[Job]:
    """Return the jobs of a measure with the options that are set here; none of one without `run`."""
    if not measure.asks_models:
        return []
    done, every = chosen(results, measure.name, options), jobs_of_measure(results, measure.name)
    if not options.model_fields_set:
        return every
    return [job for job in every if any(_same_options(job, one) for one in done)]


def _same_options(job: Job, other: Job) -> bool:
    assert job.measuring is not None and other.measuring is not None
    return job.measuring.what == other.measuring.what


def _has_column(axis: str, names: Sequence[str]) -> bool:
    """Whether a table has a column for an axis: some row has such a name, and strategies only where they differ."""
    return len({*names}) > 1 if axis == "finetune" else any(names)


def _size_of(column: Column, number: Number | None) -> int | None:
    return number.n if number is not None and isinstance(column, ShareColumn | Mean) else None


def _group_comparable(shown: Sequence[MeasureRowCell]) -> list[list[int]]:
    """Return the places of cells with the same units, such as the texts of a task, and the same attack."""
    groups: dict[Hashable, list[int]] = {}
    for i, cell in enumerate(shown):
        groups.setdefault((cell.units, cell.attack), []).append(i)
    return list(groups.values())


def _mark_best(column: Column, numbers: list[Number | None], groups: Sequence[Sequence[int]]) -> list[Number | None]:
    """Mark the best number of each group of rows."""
    marked = list(numbers)
    for group in groups:
        marked_group = mark_best_of_column([numbers[i] for i in group], column.best)
        for i, number in zip(group, marked_group, strict=True):
            marked[i] = number
    return marked


def _label_heading(measure: DeclaredMeasure, shown: Sequence[MeasureRowCell]) -> str:
    keys = dict.fromkeys(key for cell in shown for key, _ in cell.own if key not in AXES)
    return "/".join(key.replace("_", " ").capitalize() for key in keys) or "Options"


def _describe_interval(measure: DeclaredMeasure, shown: Sequence[MeasureRowCell]) -> str:
    """Say which intervals the columns have, and what they cover."""
    kinds = [type(column) for column in measure.columns]
    kinds_of_intervals = " and ".join(
        text for kind, text in ((ShareColumn, "Wilson's for shares"), (Mean, "Student's t for means")) if kind in kinds
    )
    if not kinds_of_intervals:
        return ""
    if any(cell.has_seed_levels(column.name) for cell in shown for column in measure.columns):
        return levels_note(kinds_of_intervals, "texts", cells=0, missing="rows")
    return f"95% intervals: {kinds_of_intervals}. They cover the choice of texts, not differences between seeds."


def _program_row(measure: DeclaredMeasure, cell: MeasureRowCell) -> dict[str, Any]:
    """Return a row for CSV and JSON: its names, then each number with its n and its interval."""
    fields: dict[str, Any] = {axis: getattr(cell, axis) for axis in AXES if getattr(cell, axis)}
    fields |= {key: value for key, value in cell.own if key not in AXES}
    fields |= {"label": cell.label} if cell.label and not cell.own else {}
    for column in measure.columns:
        number_fields = cell.told(column.name)
        fields[column.name] = number_fields.pop("value")
        if not isinstance(column, ShareColumn | Mean):
            number_fields = {"flagged": number_fields["flagged"]}
        fields |= {f"{column.name}_{key}": value for key, value in number_fields.items()}
    return fields | {"seeds": cell.seeds, "flags": cell.results.flags.told(cell.jobs)}
