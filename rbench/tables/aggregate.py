"""From a RUN to cells: what the suite asked for, with what is there of it.

A cell is (attack, encoder, finetune, task), pooled over seeds. The grid is that of the plan, in the suite's order, so a
table has the same shape and order whatever is done and in whatever order it was done. Only records are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rbench.errors import StoreError
from rbench.score import Tally, spread
from rbench.spec import CONTRAST, AttackJob, AttackMetric, ContrastJob, Job, Plan, Record, Score
from rbench.storage.runs import Store
from rbench.storage.standing import Standing, standing


@dataclass(frozen=True)
class Results:
    """What tables are made of: the plan of a RUN, and how its jobs stand. Read once, it serves any number of tables."""

    store: Store
    plan: Plan
    standing: Standing

    @classmethod
    def of(cls, store: Store) -> Self:
        """Read them. Raises StoreError where there is no plan, or a damaged one."""
        plan = plan_of(store)
        return cls(store, plan, standing(store, plan))

    @property
    def root(self) -> Path:
        """The RUN's folder."""
        return self.store.root


@dataclass(frozen=True)
class Run:
    """One attack job of the plan and, where it is complete, its record and tally."""

    job: Job
    record: Record | None
    tally: Tally | None

    @property
    def spec(self) -> AttackJob:
        assert isinstance(self.job.spec, AttackJob)
        return self.job.spec

    @property
    def failed(self) -> bool:
        return self.record is not None and self.record.status == "failed"


@dataclass(frozen=True)
class Cell:
    """All seeds of one (attack, encoder, finetune, task)."""

    attack: str
    encoder: str
    finetune: str
    task: str
    runs: tuple[Run, ...]

    @property
    def tallies(self) -> list[Tally]:
        return [run.tally for run in self.runs if run.tally is not None]

    @property
    def present(self) -> bool:
        """At least one seed is there."""
        return bool(self.tallies)

    @property
    def partial(self) -> bool:
        """Some seeds are there and some are not."""
        return 0 < len(self.tallies) < len(self.runs)

    @property
    def pooled(self) -> Tally:
        """The seeds that are there, thrown together; nothing but zeros where none is."""
        return Tally.pooled(self.tallies) if self.tallies else Tally()

    def score(self, metric: AttackMetric) -> Score:
        """The metric on the pooled examples."""
        return self.pooled.score(metric)

    def seed_sd(self, metric: AttackMetric) -> float | None:
        """Sample standard deviation of the metric between seeds; None for fewer than two."""
        return spread(tally.score(metric).value for tally in self.tallies)


@dataclass(frozen=True)
class Grid:
    """All cells of a plan with the order of its names. A combination that --only or a profile left out has no cell."""

    plan: Plan
    attacks: tuple[str, ...]
    encoders: tuple[str, ...]
    finetunes: tuple[str, ...]
    tasks: tuple[str, ...]
    cells: Mapping[tuple[str, str, str, str], Cell]
    standing: Standing
    """Of all jobs of the plan."""

    @property
    def runs(self) -> list[Run]:
        """Every attack job, cell by cell in the suite's order."""
        return [run for cell in self.cells.values() for run in cell.runs]

    @property
    def wordless(self) -> bool:
        """Whether any example had no words to attack. Only then do tables speak of such."""
        return any(cell.pooled.wordless for cell in self.cells.values())

    def has_oracle(self, task: str) -> bool:
        """Whether the true label of any text of this task can be read off the text (the embedded world)."""
        return any(run.spec.task.name == task and run.spec.task.generator is not None for run in self.runs)


def plan_of(store: Store) -> Plan:
    """The plan in `store`; StoreError where there is none, for instance because the path is mistyped."""
    plan = store.plan()
    if plan is None:
        raise StoreError(f"{store.root} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
    return plan


def grid(results: Results) -> Grid:
    """The cells of a RUN's plan. Raises StoreError where there is no attack in it."""
    plan, found = results.plan, results.standing
    runs: dict[tuple[str, str, str, str], list[Run]] = {}
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob) and job.spec.split == "test":
            encoder, task, finetune, attack = job.parts
            record = found.records.get(job.key)
            tally = Tally.of_record(record) if record is not None and record.status == "complete" else None
            runs.setdefault((attack, encoder, finetune, task), []).append(Run(job, record, tally))
    if not runs:
        contrast = [job for job in plan.jobs if isinstance(job.spec, ContrastJob)]
        there = {"sts": plan.suite.evaluations, CONTRAST: contrast, "positives": plan.suite.build}
        named = " and ".join(metric for metric, asked in there.items() if asked)
        hint = f" What it has is in the table --metric {named}." if named else ""
        raise StoreError(f"{results.root} has no attack table: suite {plan.suite.name} asks for no attacks.{hint}")
    suite = plan.suite
    orders = (
        in_order((choice.label for choice in suite.attacks), (key[0] for key in runs)),
        in_order(suite.encoders, (key[1] for key in runs)),
        in_order((choice.label for choice in suite.finetune), (key[2] for key in runs)),
        in_order(suite.tasks, (key[3] for key in runs)),
    )
    by_seed = _position(suite.seeds)
    ordered = sorted(runs, key=lambda key: tuple(order.index(name) for order, name in zip(orders, key, strict=True)))
    cells = {key: Cell(*key, tuple(sorted(runs[key], key=lambda run: by_seed(run.job.seed)))) for key in ordered}
    return Grid(plan, *orders, cells, found)


def in_order(wanted: Iterable[str], found: Iterable[str]) -> tuple[str, ...]:
    """The names that were found, those of the suite in its order and then any others."""
    there = set(found)
    known = [name for name in dict.fromkeys(wanted) if name in there]
    return (*known, *sorted(there - set(known)))


def _position(seeds: tuple[int, ...]) -> Callable[[int], tuple[int, int]]:
    return lambda seed: (seeds.index(seed) if seed in seeds else len(seeds), seed)
