"""The cells of a RUN that verbs judge and draw, by the name of a metric of any kind; and why some decide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rbench.config.available_cells import build_scope, trained_encoders
from rbench.config.metrics import HEADLINE
from rbench.errors import StoreError
from rbench.metrics import AnyMetric, MeasureNumber, MetricOf
from rbench.schema.claims import CellOf, ClaimScope
from rbench.score.paired import ReportedNumber
from rbench.tables import Results
from rbench.tables import cells as tabled
from rbench.tables.aggregate import AttackCell, AttackGrid, attack_grid
from rbench.tables.any_attack import AnyAttackCells, build_any_attack_cells, combine_attacks
from rbench.tables.formats import list_names
from rbench.tables.nested_means import JobValues, Values
from rbench.tables.results import SeedRun

CellsByName = Mapping[CellOf, list[tuple[tabled.Cell, str | None]]]
"""By name all cells that have it, and which number of each is meant; None: the one that the metric is called."""


class CellNumber(NamedTuple):
    """A number of a cell."""

    cell: tabled.Cell
    number: str

    def values(self, run: SeedRun) -> Values | None:
        return self.cell.values(run, self.number)

    def by_rater(self, run: SeedRun) -> dict[str, Values]:
        return self.cell.by_rater(run, self.number)

    @property
    def value(self) -> float | None:
        score = self.cell.sampled(self.number)
        return score.value if score is not None else None

    @property
    def shares(self) -> bool:
        return self.cell.shares(self.number)

    def stated(self) -> ReportedNumber | None:
        """Return the number with its interval, as a table has it; None where it has none."""
        score, draws = self.cell.sampled(self.number), self.cell.draws(self.number)
        if score is None or score.value is None or score.low is None or score.high is None:
            return None
        trained = (len(draws.means), draws.sd) if draws is not None and draws.means else (1, None)
        spread = self.cell.seeds, self.cell.seed_sd(self.number)
        return ReportedNumber(score.value, score.n, score.low, score.high, *trained, *spread)


def iterate_cells(results: Results, metric: AnyMetric, *, apart: bool = False) -> Iterator[tuple[CellOf, CellNumber]]:
    """Return the cells of a plan that have a metric, done or not, with their names, in the order of tables.

    Those of a metric of victims are the cells of the attacks on them. There are none of all attacks at once where a
    suite has one attack, or outcomes cannot be read (`any_attack` says which).

    Args:
        apart: whether the attacks' own cells stand for those of all attacks at once, because the caller joins them.

    Raises StoreError where the plan has no such jobs.
    """
    cell_grid: tabled.Grid[Any] = metric.cells(results) if isinstance(metric, MeasureNumber) else attack_grid(results)
    if metric.of == "all attacks" and not apart:
        cell_grid = replace(cell_grid, cells=build_any_attack_cells(results, attack_grid(results)).cells)
    return ((name, CellNumber(cell, number or metric.name)) for name, cell, number in _named_cells(cell_grid))


def cells_by_name(results: Results, metric: AnyMetric, *, apart: bool = False) -> dict[CellOf, CellNumber]:
    """Return what `iterate_cells` does by name. Raises StoreError where two have the same, such as one measure
    twice."""
    numbers: dict[CellOf, CellNumber] = {}
    for name, cell_number in iterate_cells(results, metric, apart=apart):
        if name in numbers:
            raise StoreError(f"{results.root} has several numbers of {metric.name} for {name}: see rbench table")
        numbers[name] = cell_number
    return numbers


def _named_cells(cell_grid: tabled.Grid[Any]) -> Iterator[tuple[CellOf, tabled.Cell, str | None]]:
    """Yield each cell under its names, with the number that is meant there; None: that of the name of the metric."""
    for cell in cell_grid.cells.values():
        for task, number in cell_grid.spoken(cell):
            yield CellOf(cell.encoder, task, cell.attack or None, cell.finetune or None), cell, number


class _CellsByMetric(Mapping[str, tuple[CellOf, ...]]):
    """By metric the cells that have it. Those of measures are read, and their files opened, when they are asked for."""

    def __init__(self, attacked: Mapping[str, tuple[CellOf, ...]], cells: RunCells) -> None:
        self._attacked, self._cells = attacked, cells

    def __getitem__(self, metric: str) -> tuple[CellOf, ...]:
        cells = self._attacked.get(metric) or self._cells.cells_of_number(metric)
        if not cells:
            raise KeyError(metric)
        return cells

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._attacked, *self._cells.numbers())))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class RunCells:
    """All cells of a RUN, read when they are asked for."""

    results: Results
    _read: dict[tuple[CellOf, str], tuple[JobValues, ...] | None] = field(default_factory=dict, repr=False)
    _grids: dict[str, dict[CellOf, list[tuple[tabled.Cell, str | None]]]] = field(default_factory=dict, repr=False)

    @cached_property
    def claim_scope(self) -> ClaimScope:
        """Return what claims on the RUN may speak of, whatever is done."""
        plan = self.results.plan
        tasks = {job.attacking.task.name: job.attacking.task for job in plan.attacks if job.attacking is not None}
        scope = build_scope(self.attacked, tasks, {}, trained_encoders(plan), self.results.metrics, {})
        return replace(scope, cells=_CellsByMetric(scope.cells, self))

    def cells_of_number(self, name: str) -> tuple[CellOf, ...]:
        """Return the cells of a number of a measure, `NUMBER` or `NUMBER.LABEL`; none where the RUN has none."""
        number, _, label = name.partition(".")
        if number not in self.results.metrics.measured:
            return ()
        return tuple(self._labelled(number).get(label, ())) if label else tuple(self._named(number))

    def numbers(self) -> Iterator[str]:
        """Yield the names for which `of_number` returns cells. This opens all measures."""
        for number in self.results.metrics.measured:
            if self._named(number):
                yield number
            yield from (f"{number}.{label}" for label in self._labelled(number))

    @cached_property
    def attacked(self) -> list[CellOf]:
        """The cells of attacks, done or not, in the order of the plan."""
        return [cell for cell in self._named(HEADLINE) if cell.encoder in self.results.plan.suite.lineup]

    def _labelled(self, metric: str) -> dict[str, list[CellOf]]:
        """Return the cells of a number of a measure, by label, as `metric.LABEL` names them."""
        by_label: dict[str, list[CellOf]] = {}
        for cells in self._named(metric).values():
            for cell, _ in cells:
                if cell.label:
                    name = CellOf(cell.encoder, cell.task, cell.attack or None, cell.finetune or None)
                    by_label.setdefault(cell.label, []).append(name)
        return by_label

    @cached_property
    def _attacks(self) -> AttackGrid:
        return attack_grid(self.results)

    @cached_property
    def _any_attack(self) -> AnyAttackCells:
        return build_any_attack_cells(self.results, self._attacks)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {job.key: place for place, job in enumerate(self.results.plan.jobs)}

    def _named(self, metric: str) -> CellsByName:
        """Return the cells that have a metric by their names, in the order of the plan; none where the RUN has none."""
        any_metric = self.results.metrics.asked(metric)
        kind = ""
        if isinstance(any_metric, MeasureNumber):
            # The cells of a label are named with their number; those of a measure serve all of its numbers.
            kind = any_metric.name if any_metric.label else f"{any_metric.measure}."
        if kind not in self._grids:
            named = self._grids.setdefault(kind, {})
            with suppress(StoreError):
                cell_grid: tabled.Grid[Any] = (
                    any_metric.cells(self.results) if isinstance(any_metric, MeasureNumber) else self._attacks
                )
                for name, cell, number in sorted(_named_cells(cell_grid), key=lambda spoken: self._place(spoken[1])):
                    named.setdefault(name, []).append((cell, number))
        return self._grids[kind]

    def _place(self, cell: tabled.Cell) -> int:
        return min((self._places[job.key] for job in cell.jobs), default=0)

    def of(self, metric: str) -> MetricOf | None:
        """Return what a metric of attacks has numbers for; None for a number of a measure."""
        return self.results.metrics.asked(metric).of

    def _numbers_of(self, name: CellOf, metric: str) -> list[CellNumber]:
        """Return the cells that have a name, each with the number that is meant."""
        return [CellNumber(cell, number or metric) for cell, number in self._named(metric).get(name, ())]

    def obstacle(self, cell: CellOf, metric: str, *, trainings: bool = True) -> str | None:
        """Say why a cell decides nothing: it is not done, or carries a health flag; None where it may decide.

        Args:
            trainings: whether a flag of its encoder's training is an obstacle.
        """
        condition = self.of(metric)
        cells = self._of_all_attacks(cell) if condition == "all attacks" else self._numbers_of(cell, metric)
        jobs = [job for entry, _ in cells for job in entry.jobs]
        done = sum(job.key in self.results.standing.done for job in jobs)
        if done < len(jobs) or not jobs:
            return f"{cell} is not done ({done} of {len(jobs)} jobs)" if len(jobs) > 1 else f"{cell} is not done"
        # A victim's own numbers do not depend on how its attacks went, so that flags of attacks do not bar them.
        raised = self.results.flags.accountable_flags(jobs, condition != "victims", trainings)
        flags = self.results.metrics.asked(metric).hindered(raised)
        if flags:
            return f"{cell} is flagged {', '.join(flags)}"
        lost = self.results.flags.lost(jobs, condition != "victims", trainings)
        remark = "is missing or damaged, so that its health is not known; run the suite again"
        return f"{cell}: the record of {list_names(lost)} {remark}" if lost else None

    def cell(self, name: CellOf) -> AttackCell:
        """Return the cell of an attack by its name."""
        return self._attacks.cells[name.attack or "", name.encoder, name.finetune or "", name.task or ""]

    def units(self, name: CellOf, metric: str) -> object:
        """Return what is the same for cells whose numbers are of the same units, such as the texts of a task."""
        return next((cell.units for cell, _ in self._numbers_of(name, metric)), name.task)

    def observed(self, cell: CellOf, metric: str) -> tuple[JobValues, ...] | None:
        """Return the values of each unit, job by job; None where the metric has none, or the RUN keeps none.

        None also where a measure has several numbers for a cell, because the suite asks for it with several options.
        """
        if (cell, metric) not in self._read:
            cell_numbers = self._numbers_of(cell, metric)
            if self.of(metric) == "all attacks":
                self._read[cell, metric] = self._observed_under_all(cell, metric)
            else:
                self._read[cell, metric] = (
                    cell_numbers[0].cell.observed(cell_numbers[0].number) if len(cell_numbers) == 1 else None
                )
        return self._read[cell, metric] or None

    def shares(self, metric: str) -> bool:
        """Whether a metric counts units, so that each one's value may be 0 or 1."""
        any_metric = self.results.metrics.asked(metric)
        if not isinstance(any_metric, MeasureNumber):
            return any_metric.share
        entries = (entry for cells_of_name in self._named(metric).values() for entry in cells_of_name)
        return any(cell.shares(number or metric) for cell, number in entries)

    def _of_all_attacks(self, cell: CellOf) -> Iterable[tuple[tabled.Cell, str | None]]:
        """Return the cells of all attacks on a victim, which `cell` names without an attack."""
        return [
            entry
            for name, entries in self._named(HEADLINE).items()
            if name._replace(attack=None) == cell
            for entry in entries
        ]

    def _observed_under_all(self, cell: CellOf, metric: str) -> tuple[JobValues, ...] | None:
        """Return the values of a victim's texts under all attacks at once, job by job; None if unknown."""
        names = [cell._replace(attack=attack) for attack in self._attacks.attacks]
        try:
            return combine_attacks(self.results, [self.cell(name) for name in names]).observed(metric)
        except (KeyError, StoreError, ValueError):  # an attack is not there, or `stated` says why
            return None

    def percent(self, metric: str) -> bool:
        """Whether tables show the metric multiplied by 100."""
        return self.results.metrics.asked(metric).about.percent

    def stated(self, cell: CellOf, metric: str) -> ReportedNumber | str:
        """Return the number of a cell, or why it has none."""
        if self.of(metric) == "all attacks":  # counted from outcomes alone
            return self._any_attack.problem or f"{cell} has no outcomes"
        there = self._numbers_of(cell, metric)
        if len(there) != 1:
            count = f"{len(there)} numbers" if there else "no number"
            return f"the RUN has {count} of {metric} for {cell}"
        return there[0].stated() or f"{cell} has no value with an interval"
