"""The cells of a RUN that claims are judged on: their numbers, and why some decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rbench.errors import RbenchError, StoreError
from rbench.metrics import Condition, Metric
from rbench.score import SCORES as CONTRAST_SCORES
from rbench.score.paired import Stated
from rbench.spec import Job
from rbench.spec.claimed import SCORES, WAYS, CellOf
from rbench.spec.suite import ADVERSARIAL
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.any_attack import AnyAttack, any_attack, paired
from rbench.tables.flags import Flags
from rbench.tables.levels import Observed
from rbench.tables.unit_values import of_metric, unit_values

_LEVELLED = ("sts", *CONTRAST_SCORES, ADVERSARIAL)
"""Metrics, beside those of attacks, whose tables have seeds as levels of their intervals."""
_ONE = {"train_seeds": None, "train_sd": None, "seeds": None, "seed_sd": None}
"""The spreads of a number whose interval has them already."""
TableOf = Callable[[str], Table]
"""Makes the table of a metric or measure of the RUN."""


@dataclass(frozen=True)
class Cells:
    """All cells of a RUN, read when they are asked for."""

    results: Results
    table_of: TableOf
    _read: dict[tuple[CellOf, str], tuple[Observed, ...] | None] = field(default_factory=dict, repr=False)
    _tables: dict[str, Table | str] = field(default_factory=dict, repr=False)

    @cached_property
    def _attacks(self) -> Grid:
        return grid(self.results)

    @cached_property
    def _together(self) -> AnyAttack:
        return any_attack(self.results, self._attacks)

    @cached_property
    def _grid(self) -> Mapping[CellOf, Cell]:
        found = self._attacks.cells.values()
        return {CellOf(cell.encoder, cell.task, cell.attack, cell.finetune): cell for cell in found}

    @cached_property
    def _flags(self) -> Flags:
        return self.results.flags

    @cached_property
    def _jobs(self) -> Mapping[CellOf, list[Job]]:
        found: dict[CellOf, list[Job]] = {}
        attacks = {job.key for job in self.results.plan.attacks}
        for job in self.results.plan.jobs:
            if job.attacking is not None and job.key not in attacks:
                continue
            for name in _names(job, self.results.plan.draw(job.parts[0]).encoder):
                found.setdefault(name, []).append(job)
        return found

    def obstacle(self, cell: CellOf, metric: str, *, trainings: bool = True) -> str | None:
        """Say why a cell decides nothing: it is not done, or carries a health flag; None where it may decide.

        Args:
            trainings: whether a flag of its encoder's training is an obstacle.
        """
        of = self._of(metric)
        jobs = self._of_all_attacks(cell) if of == "all attacks" else self._jobs.get(cell, [])
        done = sum(job.key in self.results.standing.done for job in jobs)
        if done < len(jobs) or not jobs:
            return f"{cell} is not done ({done} of {len(jobs)} jobs)" if len(jobs) > 1 else f"{cell} is not done"
        flags = self._flags.against(jobs, of != "victims", trainings)
        return f"{cell} is flagged {', '.join(flags)}" if flags else None

    def _of(self, metric: str) -> Condition | None:
        """Return what a metric has numbers for; None for what tables and measures have."""
        found = self.results.metrics.get(metric)
        return found.of if found is not None else None

    def metric(self, name: str) -> Metric | None:
        """Return a metric of attacks; None for the name of another number, which a table has."""
        return self.results.metrics.get(name)

    def cell(self, name: CellOf) -> Cell:
        """Return the cell of an attack by its name."""
        return self._grid[name]

    def observed(self, cell: CellOf, metric: str) -> tuple[Observed, ...] | None:
        """Return the values of each example, job by job; None where the metric has none, or the RUN keeps none.

        None also where a measure has several numbers for a cell, because the suite asks for it with several options.
        """
        if (cell, metric) not in self._read:
            of = self.results.metrics.get(metric)
            if of is None:
                found = list(self._of_encoders(cell, metric))
            else:
                found = list(self._together_of(cell, of) if of.of == "all attacks" else self._of_attacks(cell, of))
            known = [one for one in found if one is not None]
            single = len({(one.training, one.seed) for one in known}) == len(known) == len(found)
            self._read[cell, metric] = tuple(known) if single else None
        return self._read[cell, metric] or None

    def shares(self, metric: str) -> bool:
        """Whether a metric counts examples, so that each one's value may be 0 or 1."""
        of = self.results.metrics.get(metric)
        return of.share if of is not None else SCORES.get(metric) in (None, "contrast")

    def _of_all_attacks(self, cell: CellOf) -> list[Job]:
        """Return the jobs of all attacks on a victim, which `cell` names without an attack."""
        return [job for name, one in self._grid.items() if name._replace(attack=None) == cell for job in one.jobs]

    def _together_of(self, cell: CellOf, metric: Metric) -> Iterator[Observed | None]:
        """Yield for each seed of a victim the values of its texts under all attacks at once; None if unknown."""
        for first, *others in paired(self._attacks, cell.encoder, cell.finetune or "", cell.task or ""):
            try:
                run = replace(first, others=tuple(run.job for run in others))
                values = self.results.values(run, metric)
            except (StoreError, ValueError):  # `stated` says why
                values = None
            yield None if values is None else Observed(first.job.seed, first.train_seed or 0, values)

    def _of_attacks(self, cell: CellOf, metric: Metric) -> Iterator[Observed | None]:
        for run in self._grid[cell].runs:
            values = self.results.values(run, metric)
            yield None if values is None else Observed(run.job.seed, run.train_seed or 0, values)

    def _of_encoders(self, cell: CellOf, metric: str) -> Iterator[Observed | None]:
        """Yield what the jobs behind a cell of evaluations hold for each pair, text or bundle."""
        for job in self._jobs.get(cell, []):
            store = self.results.store
            values_of = unit_values(store, job, metric, cell.task)
            if values_of:
                draw = self.results.plan.draw(job.parts[0]).train_seed or 0
                yield Observed(job.seed, draw, values_of)
            elif of_metric(job, metric):
                yield None

    def percent(self, metric: str) -> bool:
        """Whether tables show the metric multiplied by 100."""
        if (of := self.results.metrics.get(metric)) is not None:
            return of.about.percent
        table = self._table(SCORES.get(metric, metric))
        return isinstance(table, Table) and SCORES.get(metric) != "space" and table.meaning.percent

    def stated(self, cell: CellOf, metric: str) -> Stated | str:
        """Return the number that a table has for a cell, or why it has none."""
        of = self._of(metric)
        if of == "all attacks":  # counted from outcomes alone
            return self._together.problem or f"{cell} has no outcomes"
        if of is not None:
            own = self._grid[cell]
            score, draws = own.sampled(metric), own.draws(metric)
            more = {"seeds": len({run.job.seed for run in own.runs}), "seed_sd": own.seed_sd(metric)}
            more |= {"trainings": len(draws.means), "train_sd": draws.sd} if draws is not None and draws.means else {}
            return _stated(cell, score.model_dump() | more)
        table = self._table(SCORES.get(metric, metric))
        if isinstance(table, str):
            return table
        rows = [row for row in table.cells if _same(row, cell)]
        if len(rows) != 1:
            several = f"{len(rows)} numbers" if rows else "no number"
            return f"the table of {table.metric} has {several} for {cell}"
        row = rows[0]
        scores = row.get("scores", {})
        if metric in scores and metric in SCORES:
            row = {"seeds": row.get("seeds"), **scores[metric]}
        elif metric in row:
            spreads = {name: row.get(f"{metric}_{name}") for name in ("train_seeds", "train_sd", "seed_sd")}
            spreads["seeds"] = row.get("seeds")
            row = {"value": row[metric], "low": row[f"{metric}_low"], "high": row[f"{metric}_high"], "n": row["n"]}
            row |= spreads
        levelled = metric in _LEVELLED and len(self.observed(cell, metric) or ()) > 1
        return _stated(cell, {**row, **_ONE} if levelled else row)

    def _table(self, metric: str) -> Table | str:
        """Return a table, or why there is none."""
        if metric not in self._tables:
            try:
                self._tables[metric] = self.table_of(metric)
            except RbenchError as error:
                self._tables[metric] = f"there is no table of {metric}: {error}"
        return self._tables[metric]


def _stated(cell: CellOf, row: Mapping[str, Any]) -> Stated | str:
    value, low, high = (row.get(name) for name in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return f"{cell} has no value with an interval"
    trainings = row.get("trainings", row.get("train_seeds")) or 1
    seeds = row.get("seeds") or 1
    return Stated(value, row.get("n") or 0, low, high, trainings, row.get("train_sd"), seeds, row.get("seed_sd"))


def _same(row: Mapping[str, Any], cell: CellOf) -> bool:
    """Whether a row of a table for programs is of this cell."""
    tasks = {row.get(name) for name in ("task", "evaluation", "contrast", "part")}
    rest = (row.get("encoder"), row.get("attack"), row.get("finetune"))
    return cell.task in tasks and rest == (cell.encoder, cell.attack, cell.finetune)


def _names(job: Job, encoder: str) -> list[CellOf]:
    """Return the names of the cells that a job makes; a contrast set may have its task's name or its own."""
    parts = job.parts[1:]
    if job.attacking is not None:
        return [CellOf(encoder, parts[0], parts[2], parts[1])]
    if job.measuring is not None and job.measuring.of == "victims":
        return [CellOf(encoder, name, None, parts[1]) for name in {parts[0], parts[2]}]
    if job.untuned:
        return [CellOf(encoder, name) for name in (parts[-1], *WAYS.get(job.what or "", ()))]
    if job.victim is not None:
        return [CellOf(encoder, part.name, None, parts[1]) for part in job.victim.task.parts if part.split == "test"]
    return []
