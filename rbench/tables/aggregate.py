"""Groups the attack jobs of a RUN into cells, with the results that exist.

A cell is (attack, encoder, finetune, task), pooled over seeds of training and of fine-tuning. The plan determines the
grid of cells, and the suite their order. So a table has the same shape and order whatever is done, in whatever order.
Cells are made of records where these hold what a metric needs, and otherwise of `Results.observations`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from rbench.errors import StoreError
from rbench.metrics import Metric, Metrics, Observations, Sample, Share, Tally, by_unit, pooled, pooled_values
from rbench.score import scored
from rbench.spec import CONTRAST, AttackJob, Job, Plan, Record, Score
from rbench.storage.runs import Reader
from rbench.storage.standing import Standing, standing
from rbench.tables.draws import means, within
from rbench.tables.flags import Flags
from rbench.tables.levels import Values, limits, observed
from rbench.tables.table import CellKey, Draws, Number

ANY = "any attack"
"""Stands for all attacks in the column of attacks."""


@dataclass(frozen=True)
class Results:
    """The plan of a RUN and the state of its jobs. It is read once and serves any number of tables."""

    store: Reader
    plan: Plan
    standing: Standing
    metrics: Metrics = field(default_factory=Metrics, compare=False, repr=False)
    """The metrics that tables may show: those of rbench, of packages, and of --include folders."""
    _observed: dict[str, Observations] = field(default_factory=dict, compare=False, repr=False)
    """By job key; of the jobs that were asked for."""
    _drawn: dict[Hashable, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    """The examples that a seed draws from a task, for `repeats`. Encoders and attacks share them."""
    pooled: dict[Hashable, Share | Sample] = field(default_factory=dict, compare=False, repr=False)
    """Metrics of cells over all of their seeds, by cell and metric."""
    limits: dict[Hashable, tuple[float, float] | None] = field(default_factory=dict, compare=False, repr=False)
    """Intervals with seeds as levels, by cell and metric, so that each is computed once for all tables."""

    @classmethod
    def of(cls, store: Reader, metrics: Metrics | None = None) -> Self:
        """Read plan and records. Raises StoreError where there is no plan, or a damaged one.

        Args:
            metrics: None: those of rbench and of packages.
        """
        plan = plan_of(store)
        return cls(store, plan, standing(store, plan), metrics or Metrics())

    @property
    def root(self) -> Path:
        """The RUN's folder."""
        return self.store.root

    def observations(self, job: Job) -> Observations:
        """Return what became of each example of a complete attack job. Its outcomes are read once for all tables.

        Raises StoreError where they are missing or damaged.
        """
        if job.key not in self._observed:
            assert job.attacking is not None
            record, oracle = self.standing.records[job.key], job.attacking.task.has_oracle
            self._observed[job.key] = Observations.read(self.store, job, record, has_oracle=oracle)
        return self._observed[job.key]

    def values(self, run: Run, metric: Metric) -> Values | None:
        """Return the values whose share or mean is the metric, of a complete run of one attack or of several together.

        Examples in no denominator are left out. None where the RUN keeps no outcomes. Raises StoreError where they are
        damaged or missing, and ValueError where several attacks have different examples.
        """
        if not self.kept(run):
            return None
        seen = [self.observations(job) for job in run.jobs]
        return by_unit(metric, Observations.together(seen) if len(seen) > 1 else seen[0])

    def kept(self, run: Run) -> bool:
        """Whether the RUN keeps the outcomes of a complete run."""
        records = self.standing.records
        return all(records[job.key].outcomes is not None or self.store.content(job) is not None for job in run.jobs)

    def repeats(self, jobs: Collection[Job]) -> float:
        """Return how many of these attack jobs attacked the same example, on average over all examples; at least 1.

        The jobs are on one task. Trainings share all examples. Fine-tuning seeds draw theirs from one split, so their
        samples overlap. Where a record is missing, or outcomes are missing or damaged, seeds count as if they shared
        all, so an interval is never too narrow.
        """
        victims = Counter(job.seed for job in jobs)
        if len(victims) < 2 or any(job.key not in self.standing.records for job in jobs):
            return max(1, len(jobs))
        try:
            drawn = {job.seed: self._examples(job) for job in jobs}
        except StoreError:
            return len(jobs)
        there: frozenset[str] = frozenset().union(*drawn.values())
        return sum(victims[seed] * len(examples) for seed, examples in drawn.items()) / max(1, len(there))

    def _examples(self, job: Job) -> frozenset[str]:
        spec = job.attacking
        assert spec is not None
        key = spec.task.name, spec.data_fingerprint, spec.split, spec.num_examples, job.seed
        if key not in self._drawn:
            self._drawn[key] = frozenset(self.observations(job).unit.tolist())
        return self._drawn[key]


@dataclass(frozen=True)
class Run:
    """One attack job of the plan and, where it is complete, its record and tally."""

    job: Job
    record: Record | None
    tally: Tally | None
    train_seed: int | None = None
    """The training seed of its encoder; None without `train_seeds`, or where rbench does not train the encoder."""
    others: tuple[Job, ...] = ()
    """In a run of several attacks together (`tables.any_attack`), the jobs of all but the first of them."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        return (self.job, *self.others)

    @property
    def seed(self) -> int:
        """The fine-tuning seed."""
        return self.job.seed

    @property
    def training(self) -> int:
        """The training seed of its encoder; 0 where it has none."""
        return self.train_seed or 0

    @property
    def spec(self) -> AttackJob:
        assert self.job.attacking is not None
        return self.job.attacking

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
    drawn: bool
    """Whether the suite has `train_seeds`."""
    results: Results = field(compare=False, repr=False)

    @property
    def key(self) -> CellKey:
        return self.attack, self.encoder, self.finetune, self.task

    @property
    def jobs(self) -> list[Job]:
        return [job for run in self.runs for job in run.jobs]

    @property
    def tallies(self) -> list[Tally]:
        return [run.tally for run in self.runs if run.tally is not None]

    @property
    def present(self) -> bool:
        """Whether at least one seed is done."""
        return bool(self.tallies)

    @property
    def partial(self) -> bool:
        """Whether some seeds are done and some are not."""
        return 0 < len(self.tallies) < len(self.runs)

    @property
    def pooled(self) -> Tally:
        """The counts of the seeds that are done, added up; all zero where none is done."""
        return Tally.pooled(self.tallies) if self.tallies else Tally()

    @cached_property
    def repeats(self) -> float:
        """How many seeds and trainings attacked an example, on average, for `Tally.score`."""
        return self.results.repeats([run.job for run in self.runs if run.tally is not None])

    def has(self, name: str) -> bool:
        """Whether a metric has a number for such a cell: of one attack, or of all attacks on a victim at once."""
        metric = self.results.metrics[name]
        if self.attack == ANY:
            return metric.together or metric.of != "attacks"
        return metric.of != "all attacks"

    def score(self, name: str) -> Score:
        """The metric on the pooled examples. Seeds and trainings, where there are several, are levels of its interval.

        The outcomes of several are read for that. Where they are missing or damaged, the score is that of `sampled`.
        """
        if (found := self._limits(name)) is None:
            return self.sampled(name)
        return scored(name, self.pooled_as(name)).model_copy(update={"low": found[0], "high": found[1]})

    def sampled(self, name: str) -> Score:
        """The metric on the pooled examples. Its interval covers the choice of examples alone.

        It counts an example once, however many victims share it.
        """
        return scored(name, self.pooled_as(name), self.repeats)

    def levelled(self, name: str) -> bool:
        """Whether the interval of `score` covers differences between seeds, too."""
        return self._limits(name) is not None

    def lost(self, name: str) -> bool:
        """Whether the metric is computed from outcomes which the RUN does not keep."""
        return None in [found for _, found in self.found(name)]

    def of_run(self, run: Run, name: str) -> Share | Sample | None:
        """The metric of a run that is done; None where it is computed from outcomes that are lost."""
        metric = self.results.metrics[name]
        assert run.tally is not None
        if metric.counted is not None:
            counted: Share | Sample = metric.counted(run.tally)
            return counted
        try:
            values = self.results.values(run, metric)
        except StoreError:
            return None
        return None if values is None else pooled_values(metric, values.values())

    def found(self, name: str) -> list[tuple[Run, Share | Sample | None]]:
        """Return the metric of each run that is done; None where it is lost."""
        return [(run, self.of_run(run, name)) for run in self.runs if run.tally is not None]

    def pooled_as(self, name: str) -> Share | Sample:
        """The metric of all that is done; of nothing, if there is no such number or outcomes are lost."""
        metric, known = self.results.metrics[name], self.results.pooled
        if (key := self._known_as(name)) not in known:
            if not self.has(name):
                found = pooled(metric, ())
            elif metric.counted is not None:
                found = metric.counted(self.pooled)
            else:
                parts = [part for _, part in self.found(name)]
                found = pooled(metric, () if None in parts else (part for part in parts if part is not None))
            known[key] = found
        return known[key]

    def _known_as(self, name: str) -> Hashable:
        return self.attack, tuple(run.job.key for run in self.runs), name

    def _limits(self, name: str) -> tuple[float, float] | None:
        """Return the interval with levels; None for one victim, and where outcomes do not give it."""
        known, key = self.results.limits, self._known_as(name)
        if key not in known:
            known[key] = self._computed(name)
        return known[key]

    def _computed(self, name: str) -> tuple[float, float] | None:
        metric, done = self.results.metrics[name], [run for run in self.runs if run.tally is not None]
        if len(done) < 2 or self.pooled_as(name).mean is None:
            return None
        try:
            values = [self.results.values(run, metric) for run in done]
        except StoreError:
            return None
        found = observed((run.job.seed, run.train_seed, own) for run, own in zip(done, values, strict=True))
        return limits([found], shares=metric.share)

    def seed_sd(self, name: str) -> float | None:
        """Return the standard deviation of the metric between fine-tuning seeds (`draws.within`)."""
        return within(self._values(name))

    def draws(self, name: str) -> Draws | None:
        """Return the metric by training seed; None without `train_seeds`."""
        several = len({run.job.seed for run in self.runs}) > 1
        return Draws(means(self._values(name)), several) if self.drawn else None

    def number(self, name: str) -> Number | None:
        """Return the metric as a table entry; None where no seed is done."""
        if not self.present:
            return None
        more = {"seed_sd": self.seed_sd(name), "draws": self.draws(name), "partial": self.partial}
        return Number.of(self.score(name), self.results.metrics[name].about, lost=self.lost(name), **more)

    def _values(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, found.mean if found is not None else None) for run, found in self.found(name)]


@dataclass(frozen=True)
class Grid:
    """All cells of a plan, and its names in order. A combination that --only or a profile left out has no cell."""

    plan: Plan
    attacks: tuple[str, ...]
    encoders: tuple[str, ...]
    finetunes: tuple[str, ...]
    tasks: tuple[str, ...]
    cells: Mapping[tuple[str, str, str, str], Cell]
    standing: Standing
    """State of all jobs of the plan."""
    metrics: Metrics
    """The metrics that tables may show."""

    @property
    def runs(self) -> list[Run]:
        """Every attack job, cell by cell in the suite's order."""
        return [run for cell in self.cells.values() for run in cell.runs]

    @cached_property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return Flags(self.plan, self.standing.records)

    @cached_property
    def wordless(self) -> bool:
        """Whether any example had no words to attack. Tables mention such examples only if there are any."""
        return any(cell.pooled.wordless for cell in self.cells.values())

    @cached_property
    def timed_out(self) -> bool:
        """Whether any example took longer than --max-seconds."""
        return any(cell.pooled.timed_out for cell in self.cells.values())

    @cached_property
    def unusable(self) -> bool:
        """Whether any pair has an empty sentence or a gold score outside the scale."""
        return any(cell.pooled.unusable for cell in self.cells.values())

    @cached_property
    def scored_tasks(self) -> tuple[str, ...]:
        """The tasks whose examples are pairs with similarity scores (STS)."""
        return tuple(
            task for task in self.tasks if any(r.spec.task.kind == "sts" for r in self.runs if r.spec.task.name == task)
        )

    @cached_property
    def several(self) -> bool:
        """Whether a task has victims of several strategies. Otherwise a task and an encoder name a victim."""
        return len({(cell.task, cell.finetune) for cell in self.cells.values()}) > len(self.tasks)

    def cell(self, attack: str, encoder: str, finetune: str | None, task: str) -> Cell | None:
        """Return a cell, or None where the plan has none. Without a strategy, it is that of the task's only one."""
        names = self.finetunes if finetune is None else (finetune,)
        return next((self.cells[key] for name in names if (key := (attack, encoder, name, task)) in self.cells), None)

    def has_oracle(self, task: str) -> bool:
        """Whether an oracle computes the true label of any text of this task (only tasks of the embedded world)."""
        return any(run.spec.task.name == task and run.spec.task.has_oracle for run in self.runs)


def plan_of(store: Reader) -> Plan:
    """Return the plan in `store`. Raises StoreError where there is none, for instance because the path is mistyped."""
    plan = store.plan()
    if plan is None:
        raise StoreError(f"{store.root} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
    return plan


def grid(results: Results) -> Grid:
    """Build the cells of a RUN's plan. Raises StoreError where it has no attack."""
    plan, found = results.plan, results.standing
    runs: dict[tuple[str, str, str, str], list[Run]] = {}
    for job in plan.attacks:
        label, task, finetune, attack = job.parts
        encoder, train_seed = (draw := plan.draw(label)).encoder, draw.train_seed
        record = found.records.get(job.key)
        tally = Tally.of_record(record) if record is not None and record.status == "complete" else None
        runs.setdefault((attack, encoder, finetune, task), []).append(Run(job, record, tally, train_seed))
    if not runs:
        contrast = [job for job in plan.jobs if job.what == CONTRAST]
        there = {"sts": plan.suite.evaluations, CONTRAST: contrast, "positives": plan.suite.build}
        named = " and ".join(metric for metric, asked in there.items() if asked)
        hint = f" What it has is in the table --metric {named}." if named else ""
        raise StoreError(f"{results.root} has no attack table: suite {plan.suite.name} asks for no attacks.{hint}")
    suite = plan.suite
    orders = (
        in_order((choice.label for choice in suite.attacks), (key[0] for key in runs)),
        in_order(suite.lineup, (key[1] for key in runs)),
        in_order((choice.label for choice in suite.finetune), (key[2] for key in runs)),
        in_order(suite.tasks, (key[3] for key in runs)),
    )
    ordered = sorted(runs, key=lambda key: tuple(order.index(name) for order, name in zip(orders, key, strict=True)))
    by_seed, by_training = _position(suite.seeds), _position(suite.train_seeds)

    def place(run: Run) -> tuple[tuple[int, int], tuple[int, int]]:
        return by_training(run.train_seed or 0), by_seed(run.job.seed)

    drawn = bool(plan.draws)
    cells = {key: Cell(*key, tuple(sorted(runs[key], key=place)), drawn, results) for key in ordered}
    return Grid(plan, *orders, cells, found, results.metrics)


def in_order(wanted: Iterable[str], found: Iterable[str]) -> tuple[str, ...]:
    """Return the names in `found`: first those in `wanted`, in its order, then the others, sorted."""
    there = set(found)
    known = [name for name in dict.fromkeys(wanted) if name in there]
    return (*known, *sorted(there - set(known)))


def _position(seeds: tuple[int, ...]) -> Callable[[int], tuple[int, int]]:
    return lambda seed: (seeds.index(seed) if seed in seeds else len(seeds), seed)
