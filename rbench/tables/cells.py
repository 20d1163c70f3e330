"""The one shape of a number that is pooled over seeds: a cell, and the grid of the cells of a plan.

A cell is all seeds, of training and of fine-tuning, of one combination of names: encoder, strategy, task, attack and
label. The plan determines which cells there are, and the suite their order. So a table has the same shape and order
whatever is done, in whatever order. `aggregate` has the cells of attacks, whose metrics are files. Those of all other
jobs differ in their `NumberReading` alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Self, TypedDict, TypeVar

from rbench.errors import StoreError
from rbench.metrics import MetricCatalogue
from rbench.schema import Job, Meaning, Plan, Record, Score
from rbench.store.job_status import JobStatuses
from rbench.tables import nested_means
from rbench.tables.draws import spread_within_trainings, training_fields, training_means
from rbench.tables.flags import Flags
from rbench.tables.nested_means import JobValues, Values
from rbench.tables.results import Results, SeedRun
from rbench.tables.table import Number, TrainingMeans

NUMBER_FIELDS = ("value", "n", "low", "high", "flagged")
"""The fields of a number that programs get of any."""


class SeedSpread(TypedDict):
    """The fields of a `Number` that say how seeds differ, and whether all are done."""

    seed_sd: float | None
    draws: TrainingMeans | None
    partial: bool


@dataclass(frozen=True)
class Cell(ABC):
    """All seeds of one combination of names. Names that a kind of cell does not have are empty."""

    encoder: str
    task: str
    runs: tuple[SeedRun, ...]
    results: Results = field(compare=False, repr=False)
    drawn: bool = False
    """Whether the suite has `train_seeds`."""
    finetune: str = ""
    attack: str = ""
    label: str = ""
    """Of a set, an evaluation, a measure or a part of a test split."""
    provisional: bool = False
    """Whether the cell was picked among cells that are not all complete, so that another may turn out better."""

    @property
    def jobs(self) -> list[Job]:
        return [job for run in self.runs for job in run.jobs]

    @property
    def units(self) -> Hashable:
        """What is the same for cells whose numbers are of the same units, such as the texts of a task."""
        return self.task, self.label

    def at(self, *axes: str) -> dict[str, Any]:
        """Return its names on some axes, for programs: `encoder`, `task`, `finetune`, `attack`, `label`."""
        return {axis: getattr(self, axis) for axis in axes}

    @cached_property
    def done(self) -> tuple[SeedRun, ...]:
        """The seeds that are complete."""
        return tuple(run for run in self.runs if run.done)

    @property
    def records(self) -> list[Record]:
        """The records of the seeds that are complete."""
        return [run.record for run in self.done if run.record is not None]

    @property
    def present(self) -> bool:
        """Whether at least one seed is done."""
        return bool(self.done)

    @property
    def complete(self) -> bool:
        """Whether all seeds are done."""
        return len(self.done) == len(self.runs)

    @property
    def partial(self) -> bool:
        """Whether some seeds are done while others, of this cell or of those it was picked among, are not."""
        return self.present and (self.provisional or not self.complete)

    @property
    def seeds(self) -> int:
        """How many fine-tuning seeds are done."""
        return len({run.job.seed for run in self.done})

    @property
    def repeats(self) -> float:
        """How many seeds and trainings have the same unit, on average, where `n` counts each of them."""
        return 1.0

    def only(self, run: SeedRun) -> Self:
        """Return the cell of one seed, which has no spread between seeds."""
        return replace(self, runs=(run,), drawn=False, provisional=False)

    @abstractmethod
    def sampled(self, name: str) -> Score | None:
        """The number over all seeds that are done; None where there is none. Its interval covers the choice of units
        alone."""

    def score(self, name: str) -> Score | None:
        """The number over all seeds that are done. Seeds, where there are several, are levels of its interval."""
        pooled_score = self.sampled(name)
        if pooled_score is None:
            return None
        return with_seed_levels(pooled_score, self.limits(name))

    @abstractmethod
    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        """The training seed and the number of each seed that is done."""

    @abstractmethod
    def values(self, run: SeedRun, name: str) -> Values | None:
        """By unit, the values of which the number of a run is the mean; None where there are none."""

    def observed(self, name: str) -> tuple[JobValues, ...] | None:
        """What each seed that is done adds to the number, unit by unit; None where that is not known of one."""
        job_values = nested_means.collect_job_values(
            (run.seed, run.train_seed, self.values(run, name)) for run in self.done
        )
        runs_with_values = zip(self.done, job_values or (), strict=True) if job_values else ()
        return (
            tuple(replace(values_of_job, by_rater=self.by_rater(run, name)) for run, values_of_job in runs_with_values)
            or None
        )

    def by_rater(self, run: SeedRun, name: str) -> dict[str, Values]:
        """What each person who judged a run's texts adds to the number, unit by unit; empty for other numbers."""
        return {}

    @abstractmethod
    def shares(self, name: str) -> bool:
        """Whether the number is a share of units, so that the value of each may be 0 or 1."""

    def limits(self, name: str) -> tuple[float, float] | None:
        """Return the interval with seeds as levels; None for one seed, and where units do not give it."""
        # Computing an interval reads outcomes, and many tables ask for the same, so `Results` keeps each one.
        cache, key = self.results.limits, self.known_as(name)
        if key not in cache:
            # A cell with one seed keeps the interval of `sampled`: it says nothing of the next seed.
            job_values = self.observed(name) if len(self.done) > 1 else None
            cache[key] = nested_means.mean_interval([job_values], shares=self.shares(name))
        return cache[key]

    def known_as(self, name: str) -> Hashable:
        """The key of a number in what `Results` remembers."""
        jobs = tuple(job.key for run in self.done for job in run.jobs)
        return self.attack, self.encoder, self.finetune, self.label, jobs, name  # a job of a measure has many rows

    def has_seed_levels(self, name: str) -> bool:
        """Whether there is an interval that covers differences between seeds, too."""
        return self.limits(name) is not None

    @abstractmethod
    def meaning(self, name: str) -> Meaning:
        """The scale of the number."""

    def lost(self, name: str) -> bool:
        """Whether the number is computed of what the RUN does not keep."""
        return False

    def _of_the_attack(self, name: str) -> bool:
        """Whether the number is about the attack, so that the flags of the attack itself concern it."""
        return True

    def number(self, name: str) -> Number | None:
        """Return the number as a table entry, with what flags do to it; None where no seed is done."""
        score = self.score(name) if self.present else None
        if score is None:
            return None
        number = Number.of(score, self.meaning(name), lost=self.lost(name), **self.spread(self.by_seed(name)))
        return self.results.flags.on(number, self.jobs, attacks=self._of_the_attack(name))

    def told(self, name: str, *more: str) -> dict[str, Any]:
        """Return the number for programs: PLAIN, then `more` of its fields and `seeds`, and the spread of trainings."""
        number = self.number(name) or Number(None, self.meaning(name).percent, n=0, draws=self.draws(name))
        fields = {**vars(number), "seeds": self.seeds}
        return {field: fields[field] for field in (*NUMBER_FIELDS, *more)} | training_fields(number.draws)

    def seed_sd(self, name: str) -> float | None:
        """Return the standard deviation of the number between fine-tuning seeds (`draws.spread_within_trainings`)."""
        return spread_within_trainings(self.by_seed(name))

    def draws(self, name: str) -> TrainingMeans | None:
        """Return the number by training seed; None without `train_seeds`."""
        return self.spread(self.by_seed(name))["draws"]

    def spread(self, values: list[tuple[int | None, float | None]]) -> SeedSpread:
        """Return what an entry says of seeds, from the training seed and the value of each that has one."""
        several_seeds = len({run.job.seed for run in self.runs}) > 1
        draws = TrainingMeans(training_means(values), several_seeds) if self.drawn else None
        # Fields of the TypedDict are keywords of `Number`.
        return {
            "seed_sd": spread_within_trainings(values),
            "draws": draws,
            "partial": self.provisional or len(values) < len(self.runs),
        }


class PooledCell(Cell):
    """A cell whose interval has the seeds already, so that nothing is said of their spread. Units give no values."""

    @property
    def seeds(self) -> int:
        return 1

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return []

    def spread(self, values: list[tuple[int | None, float | None]]) -> SeedSpread:
        return {"seed_sd": None, "draws": None, "partial": self.partial}

    def values(self, run: SeedRun, name: str) -> Values | None:
        return None

    def shares(self, name: str) -> bool:
        return False


@dataclass(frozen=True)
class NumberReading:
    """How the number of a job that is done is read, and how those of several seeds are joined."""

    about: Meaning
    """The scale."""
    score: Callable[[SeedRun, str], Score | None]
    """The number of one job, by name; None where it has none."""
    joined: Callable[[Sequence[Score]], Score]
    """The number over several seeds, with an interval that covers the choice of units alone."""
    values: Callable[[SeedRun, str], Values | None] = lambda run, name: None
    """By unit, the values of which the number is the mean; None where there are none."""
    shares: bool = False
    """Whether values are 0 or 1."""
    levels: bool = True
    """Whether intervals have seeds as levels, where values are known."""


@dataclass(frozen=True)
class MeasuredCell(Cell):
    """A cell of jobs other than attacks."""

    read: NumberReading = field(kw_only=True, compare=False, repr=False)

    def scores(self, name: str) -> list[tuple[SeedRun, Score]]:
        """Return the number of each seed that has one."""
        return [(run, score) for run in self.done if (score := self.read.score(run, name)) is not None]

    def sampled(self, name: str) -> Score | None:
        seed_scores = [score for _, score in self.scores(name)]
        return self.read.joined(seed_scores) if seed_scores else None

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, score.value) for run, score in self.scores(name)]

    def values(self, run: SeedRun, name: str) -> Values | None:
        return self.read.values(run, name)

    def score(self, name: str) -> Score | None:
        return super().score(name) if self.read.levels else self.sampled(name)

    def shares(self, name: str) -> bool:
        return self.read.shares

    def meaning(self, name: str) -> Meaning:
        return self.read.about


C = TypeVar("C", bound=Cell)


@dataclass(frozen=True)
class Grid(Generic[C]):
    """All cells of a kind of job in a plan. A combination that --only or a profile left out has no cell."""

    results: Results
    cells: Mapping[tuple[str, ...], C]
    """By the names of `gather_cells`, in its order."""
    encoders: tuple[str, ...] = ()
    finetunes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes on cells of the plan that were left out."""
    spoken: Callable[[C], Iterable[tuple[str, str | None]]] = lambda cell: [(cell.task, None)]
    """What a claim names as the task of a cell, such as a set or a part, and the number that it means there; None: that
    of the name of the metric. A cell may have several such names."""

    @property
    def victims(self) -> tuple[tuple[str, str], ...]:
        """Encoder and strategy of all cells."""
        return tuple(dict.fromkeys((cell.encoder, cell.finetune) for cell in self.cells.values()))

    @property
    def plan(self) -> Plan:
        return self.results.plan

    @property
    def standing(self) -> JobStatuses:
        """State of all jobs of the plan."""
        return self.results.standing

    @property
    def metrics(self) -> MetricCatalogue:
        """The metrics that tables may show."""
        return self.results.metrics

    @property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return self.results.flags

    @property
    def runs(self) -> list[SeedRun]:
        """Every job with its record, cell by cell."""
        return [run for cell in self.cells.values() for run in cell.runs]

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all cells."""
        return [job for cell in self.cells.values() for job in cell.jobs]


def gather_cells(
    results: Results,
    jobs: Iterable[tuple[Job, Mapping[str, str]]],
    orders: Mapping[str, Iterable[str]],
    make: Callable[..., C],
) -> tuple[dict[tuple[str, ...], C], dict[str, Any]]:
    """Make the cells of some jobs, and return them with the names that an `AttackGrid` has: `encoders`, `tasks` and so
    on.

    Args:
        jobs: each with its names by axis: the fields of `OutcomeWriter` that are names.
        orders: by axis the names in the order of the suite. Cells are ordered by the first axis, then by the others.
        make: makes a cell of its fields.
    """
    plan = results.plan
    by_key: dict[tuple[str, ...], tuple[Mapping[str, str], list[SeedRun]]] = {}
    for job, names in jobs:
        run = SeedRun.of(job, results.standing.records.get(job.key), plan.draw(job.parts[0]).train_seed)
        by_key.setdefault(tuple(names[axis] for axis in orders), (names, []))[1].append(run)
    names_by_axis = {
        axis: in_order(suite_order, (key[i] for key in by_key)) for i, (axis, suite_order) in enumerate(orders.items())
    }
    cells = {}

    def place(key: tuple[str, ...]) -> list[int]:
        return [axis_names.index(name) for axis_names, name in zip(names_by_axis.values(), key, strict=True)]

    for key in sorted(by_key, key=place):
        names, runs = by_key[key]
        cells[key] = make(**names, runs=tuple(runs), results=results, drawn=bool(plan.draws))
    return cells, {f"{axis}s": axis_names for axis, axis_names in names_by_axis.items()}


def read_values_by_place(results: Results, job: Job, read: Callable[[], Iterable[float] | None]) -> Values | None:
    """Return numbers of a job by their place. Raises StoreError where what is stored of it cannot be read."""
    try:
        values = read()
    except (KeyError, ValueError) as error:
        problem = f"what is stored beside its record cannot be read ({error})"
        raise StoreError(f"{results.store.folder(job)}: {problem}; delete the folder and run again") from None
    return None if values is None else {str(i): float(value) for i, value in enumerate(values)}


def with_seed_levels(score: Score, ends: tuple[float, float] | None) -> Score:
    """Return a score with seeds as levels of its interval; as it is where that is not known."""
    return score if ends is None else score.model_copy(update={"low": ends[0], "high": ends[1]})


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean of scores of the same units, such as several trainings', with the mean limits."""

    def mean(name: str) -> float | None:
        values = [value for score in scores if (value := getattr(score, name)) is not None]
        return math.fsum(values) / len(values) if len(values) == len(scores) else None

    return scores[0].model_copy(update={name: mean(name) for name in ("value", "low", "high")})


def find_score(record: Record, name: str) -> Score:
    """Return one of a record's scores. Raises StoreError where it is missing."""
    named_score = next((score for score in record.scores if score.name == name), None)
    if named_score is None:
        raise StoreError(f"the record of {record.job.name} has no {name}. Delete it, and the job runs again.")
    return named_score


def in_order(suite_order: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in `names`: first those in `suite_order`, in its order, then the others, sorted."""
    present = set(names)
    in_suite = [name for name in dict.fromkeys(suite_order) if name in present]
    return (*in_suite, *sorted(present - set(in_suite)))
