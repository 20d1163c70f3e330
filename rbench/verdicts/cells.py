"""The cells of a RUN that verbs judge and draw, by the name of a metric of any kind; and why some decide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rbench.config.available_cells import ground_of, trained_by
from rbench.config.metrics import HEADLINE
from rbench.errors import StoreError
from rbench.metrics import AnyMetric, Condition, Measured
from rbench.schema.claims import CellOf, Ground
from rbench.score.paired import Stated
from rbench.tables import Results
from rbench.tables import cells as tabled
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.any_attack import AnyAttack, any_attack, together
from rbench.tables.formats import listed
from rbench.tables.nested_means import Observed, Values
from rbench.tables.results import Run

Named = Mapping[CellOf, list[tuple[tabled.Cell, str | None]]]
"""By name all cells that have it, and which number of each is meant; None: the one that the metric is called."""


class OfCell(NamedTuple):
    """A number of a cell."""

    cell: tabled.Cell
    number: str

    def values(self, run: Run) -> Values | None:
        return self.cell.values(run, self.number)

    def by_rater(self, run: Run) -> dict[str, Values]:
        return self.cell.by_rater(run, self.number)

    @property
    def value(self) -> float | None:
        score = self.cell.sampled(self.number)
        return score.value if score is not None else None

    @property
    def shares(self) -> bool:
        return self.cell.shares(self.number)

    def stated(self) -> Stated | None:
        """Return the number with its interval, as a table has it; None where it has none."""
        score, draws = self.cell.sampled(self.number), self.cell.draws(self.number)
        if score is None or score.value is None or score.low is None or score.high is None:
            return None
        trained = (len(draws.means), draws.sd) if draws is not None and draws.means else (1, None)
        spread = self.cell.seeds, self.cell.seed_sd(self.number)
        return Stated(score.value, score.n, score.low, score.high, *trained, *spread)


def cells_of(results: Results, metric: AnyMetric, *, apart: bool = False) -> Iterator[tuple[CellOf, OfCell]]:
    """Return the cells of a plan that have a metric, done or not, with their names, in the order of tables.

    Those of a metric of victims are the cells of the attacks on them. There are none of all attacks at once where a
    suite has one attack, or outcomes cannot be read (`any_attack` says which).

    Args:
        apart: whether the attacks' own cells stand for those of all attacks at once, because the caller joins them.

    Raises StoreError where the plan has no such jobs.
    """
    found: tabled.Grid[Any] = metric.cells(results) if isinstance(metric, Measured) else grid(results)
    if metric.of == "all attacks" and not apart:
        found = replace(found, cells=any_attack(results, grid(results)).cells)
    return ((name, OfCell(cell, number or metric.name)) for name, cell, number in _spoken(found))


def by_name(results: Results, metric: AnyMetric, *, apart: bool = False) -> dict[CellOf, OfCell]:
    """Return what `cells_of` does by name. Raises StoreError where two have the same, such as one measure twice."""
    found: dict[CellOf, OfCell] = {}
    for name, one in cells_of(results, metric, apart=apart):
        if name in found:
            raise StoreError(f"{results.root} has several numbers of {metric.name} for {name}: see rbench table")
        found[name] = one
    return found


def _spoken(found: tabled.Grid[Any]) -> Iterator[tuple[CellOf, tabled.Cell, str | None]]:
    """Yield each cell under its names, with the number that is meant there; None: that of the name of the metric."""
    for cell in found.cells.values():
        for task, number in found.spoken(cell):
            yield CellOf(cell.encoder, task, cell.attack or None, cell.finetune or None), cell, number


class _CellsByMetric(Mapping[str, tuple[CellOf, ...]]):
    """By metric the cells that have it. Those of measures are read, and their files opened, when they are asked for."""

    def __init__(self, attacked: Mapping[str, tuple[CellOf, ...]], cells: Cells) -> None:
        self._attacked, self._cells = attacked, cells

    def __getitem__(self, metric: str) -> tuple[CellOf, ...]:
        found = self._attacked.get(metric) or self._cells.of_number(metric)
        if not found:
            raise KeyError(metric)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._attacked, *self._cells.numbers())))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Cells:
    """All cells of a RUN, read when they are asked for."""

    results: Results
    _read: dict[tuple[CellOf, str], tuple[Observed, ...] | None] = field(default_factory=dict, repr=False)
    _grids: dict[str, dict[CellOf, list[tuple[tabled.Cell, str | None]]]] = field(default_factory=dict, repr=False)

    @cached_property
    def ground(self) -> Ground:
        """Return what claims on the RUN may speak of, whatever is done."""
        plan = self.results.plan
        tasks = {job.attacking.task.name: job.attacking.task for job in plan.attacks if job.attacking is not None}
        found = ground_of(self.attacked, tasks, {}, trained_by(plan), self.results.metrics, {})
        return replace(found, cells=_CellsByMetric(found.cells, self))

    def of_number(self, name: str) -> tuple[CellOf, ...]:
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
        found: dict[str, list[CellOf]] = {}
        for own in self._named(metric).values():
            for cell, _ in own:
                if cell.label:
                    name = CellOf(cell.encoder, cell.task, cell.attack or None, cell.finetune or None)
                    found.setdefault(cell.label, []).append(name)
        return found

    @cached_property
    def _attacks(self) -> Grid:
        return grid(self.results)

    @cached_property
    def _together(self) -> AnyAttack:
        return any_attack(self.results, self._attacks)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {job.key: place for place, job in enumerate(self.results.plan.jobs)}

    def _named(self, metric: str) -> Named:
        """Return the cells that have a metric by their names, in the order of the plan; none where the RUN has none."""
        of = self.results.metrics.asked(metric)
        kind = f"{of.measure}.{of.label}" if isinstance(of, Measured) else ""
        if kind not in self._grids:
            named = self._grids.setdefault(kind, {})
            with suppress(StoreError):
                found: tabled.Grid[Any] = of.cells(self.results) if isinstance(of, Measured) else self._attacks
                for name, cell, number in sorted(_spoken(found), key=lambda one: self._place(one[1])):
                    named.setdefault(name, []).append((cell, number))
        return self._grids[kind]

    def _place(self, cell: tabled.Cell) -> int:
        return min((self._places[job.key] for job in cell.jobs), default=0)

    def of(self, metric: str) -> Condition | None:
        """Return what a metric of attacks has numbers for; None for a number of a measure."""
        return self.results.metrics.asked(metric).of

    def _there(self, name: CellOf, metric: str) -> list[OfCell]:
        """Return the cells that have a name, each with the number that is meant."""
        return [OfCell(cell, number or metric) for cell, number in self._named(metric).get(name, ())]

    def obstacle(self, cell: CellOf, metric: str, *, trainings: bool = True) -> str | None:
        """Say why a cell decides nothing: it is not done, or carries a health flag; None where it may decide.

        Args:
            trainings: whether a flag of its encoder's training is an obstacle.
        """
        of = self.of(metric)
        several = self._of_all_attacks(cell) if of == "all attacks" else self._there(cell, metric)
        jobs = [job for one, _ in several for job in one.jobs]
        done = sum(job.key in self.results.standing.done for job in jobs)
        if done < len(jobs) or not jobs:
            return f"{cell} is not done ({done} of {len(jobs)} jobs)" if len(jobs) > 1 else f"{cell} is not done"
        raised = self.results.flags.against(jobs, of != "victims", trainings)
        flags = self.results.metrics.asked(metric).hindered(raised)
        if flags:
            return f"{cell} is flagged {', '.join(flags)}"
        lost = self.results.flags.lost(jobs, of != "victims", trainings)
        why = "is missing or damaged, so that its health is not known; run the suite again"
        return f"{cell}: the record of {listed(lost)} {why}" if lost else None

    def cell(self, name: CellOf) -> Cell:
        """Return the cell of an attack by its name."""
        return self._attacks.cells[name.attack or "", name.encoder, name.finetune or "", name.task or ""]

    def units(self, name: CellOf, metric: str) -> object:
        """Return what is the same for cells whose numbers are of the same units, such as the texts of a task."""
        return next((cell.units for cell, _ in self._there(name, metric)), name.task)

    def observed(self, cell: CellOf, metric: str) -> tuple[Observed, ...] | None:
        """Return the values of each unit, job by job; None where the metric has none, or the RUN keeps none.

        None also where a measure has several numbers for a cell, because the suite asks for it with several options.
        """
        if (cell, metric) not in self._read:
            there = self._there(cell, metric)
            if self.of(metric) == "all attacks":
                self._read[cell, metric] = self._observed_together(cell, metric)
            else:
                self._read[cell, metric] = there[0].cell.observed(there[0].number) if len(there) == 1 else None
        return self._read[cell, metric] or None

    def shares(self, metric: str) -> bool:
        """Whether a metric counts units, so that each one's value may be 0 or 1."""
        of = self.results.metrics.asked(metric)
        if not isinstance(of, Measured):
            return of.share
        own = (one for named in self._named(metric).values() for one in named)
        return any(cell.shares(number or metric) for cell, number in own)

    def _of_all_attacks(self, cell: CellOf) -> Iterable[tuple[tabled.Cell, str | None]]:
        """Return the cells of all attacks on a victim, which `cell` names without an attack."""
        return [one for name, own in self._named(HEADLINE).items() if name._replace(attack=None) == cell for one in own]

    def _observed_together(self, cell: CellOf, metric: str) -> tuple[Observed, ...] | None:
        """Return the values of a victim's texts under all attacks at once, job by job; None if unknown."""
        names = [cell._replace(attack=attack) for attack in self._attacks.attacks]
        try:
            return together(self.results, [self.cell(name) for name in names]).observed(metric)
        except (KeyError, StoreError, ValueError):  # an attack is not there, or `stated` says why
            return None

    def percent(self, metric: str) -> bool:
        """Whether tables show the metric multiplied by 100."""
        return self.results.metrics.asked(metric).about.percent

    def stated(self, cell: CellOf, metric: str) -> Stated | str:
        """Return the number of a cell, or why it has none."""
        if self.of(metric) == "all attacks":  # counted from outcomes alone
            return self._together.problem or f"{cell} has no outcomes"
        if len(there := self._there(cell, metric)) != 1:
            return f"the RUN has {f'{len(there)} numbers' if there else 'no number'} of {metric} for {cell}"
        return there[0].stated() or f"{cell} has no value with an interval"
