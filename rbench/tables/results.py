"""The plan of a RUN with the state of its jobs, which all tables read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rbench.errors import StoreError, SuiteError
from rbench.metrics import (
    Metric,
    MetricCatalogue,
    MetricOf,
    Observations,
    Proportion,
    Sample,
    Tally,
    by_unit,
    columns_of,
)
from rbench.metrics._observations import judged_columns
from rbench.schema import AttackJob, Job, Plan, Record
from rbench.store.job_status import JobStatuses, load_statuses
from rbench.store.runs import RunReader, RunStore
from rbench.tables.flags import Flags
from rbench.tables.nested_means import Values

if TYPE_CHECKING:
    from rbench.schema.judged import HumanJudgements


@dataclass(frozen=True)
class Results:
    """The plan of a RUN and the state of its jobs. It is read once and serves any number of tables."""

    store: RunReader
    plan: Plan
    standing: JobStatuses
    metrics: MetricCatalogue = field(default_factory=MetricCatalogue, compare=False, repr=False)
    """The metrics that tables may show: those of rbench, of packages, and of --include folders."""
    _observed: dict[str, Observations] = field(default_factory=dict, compare=False, repr=False)
    """By job key; of the jobs that were asked for."""
    _drawn: dict[Hashable, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    """The examples that a seed draws from a task, for `repeats`. Encoders and attacks share them."""
    pooled: dict[Hashable, Proportion | Sample] = field(default_factory=dict, compare=False, repr=False)
    """Metrics of cells over all of their seeds, by cell and metric."""
    notes: tuple[str, ...] = ()
    """Of several RUNs that are read as one: where they differ, and what is left out."""
    limits: dict[Hashable, tuple[float, float] | None] = field(default_factory=dict, compare=False, repr=False)
    """Intervals with seeds as levels, by cell and metric, so that each is computed once for all tables."""
    grids: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """By what they are of, cells that several tables and verdicts ask for: `attacks`, those of the plan's attacks."""
    only: tuple[str, ...] = ()
    """The patterns by which jobs were chosen, where these are the results of a part of the RUN."""

    @classmethod
    def of(cls, store: RunReader, metrics: MetricCatalogue | None = None) -> Self:
        """Read plan and records. Raises StoreError where there is no plan, or a damaged one.

        Args:
            metrics: None: those of rbench and of packages.
        """
        plan = load_plan(store)
        return cls(store, plan, load_statuses(store, plan), metrics or MetricCatalogue())

    @classmethod
    def for_plan(cls, plan: Plan, metrics: MetricCatalogue) -> Self:
        """Return the results of a plan of which nothing is done, for what depends on the plan alone."""
        return cls(RunStore(Path()), plan, JobStatuses({}, {}), metrics)

    @property
    def root(self) -> Path:
        """The RUN's folder."""
        return self.store.root

    @cached_property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return Flags(self.plan, self.standing.records, self.store)

    @cached_property
    def judged(self) -> HumanJudgements | None:
        """What people said of the RUN's texts; None where nobody was asked. Raises StoreError where it is damaged."""
        if not self.standing.records or self.store.said() is None:
            return None
        from rbench.store import judged

        return judged.read_judgements(self.store)

    def require_judged(self) -> HumanJudgements:
        """Return what people said of the RUN's texts. Raises StoreError where nobody was asked."""
        if self.judged is None:
            raise StoreError(
                f"{self.root} is not judged. rbench judge export makes sheets for people who judge its texts"
            )
        return self.judged

    @cached_property
    def victims(self) -> Mapping[tuple[str, str, str], int]:
        """How many different victims complete attacks and measures of victims met, by encoder, task and strategy.

        Fine-tunings that gave the same weights are one, and so is a classifier that exists, whatever the seeds of its
        attacks. Of several trainings of an encoder, it is the largest number that one of them has.
        """
        weights_by_victim: dict[tuple[str, str, str], dict[str, set[str]]] = {}
        for job in self.plan.jobs:
            record = self.standing.records.get(job.key)
            of_victim = job.attacking is not None or "victim" in job.needs
            if not of_victim or record is None or record.status != "complete":
                continue
            label, task, finetune = job.parts[:3]
            # Fine-tunings that ended in the same weights are one victim, however many seeds name them.
            by_label = weights_by_victim.setdefault((self.plan.draw(label).encoder, task, finetune), {})
            by_label.setdefault(label, set()).add(record.provenance.weights_hash or f"seed {job.seed}")
        return {key: max(map(len, by_label.values())) for key, by_label in weights_by_victim.items()}

    def observations(self, job: Job, rater: int | None = None) -> Observations:
        """Return what became of each example of a complete attack job. Its outcomes are read once for all tables.

        Args:
            rater: whose answers count alone, of the people who judged the texts; None: those of all.

        Raises StoreError where they are missing or damaged.
        """
        # Read without a rater's answers first: these are the same outcomes, and only the columns of judgements differ.
        if job.key not in self._observed:
            assert job.attacking is not None
            record, oracle = self.standing.records[job.key], job.attacking.task.has_oracle
            said_columns = (
                partial(judged_columns, self.judged, job.key, rater=None) if self.judged is not None else None
            )
            self._observed[job.key] = Observations.read(
                self.store, job, record, self._columns, has_oracle=oracle, said=said_columns
            )
        observed = self._observed[job.key]
        return (
            observed
            if rater is None
            else observed.select_rater(partial(judged_columns, self.judged, job.key, rater=rater))
        )

    @cached_property
    def _columns(self) -> frozenset[str]:
        """The columns of outcomes that metrics of these attacks need, and the ids by which examples are paired."""
        attacks = [job.attacking for job in self.plan.attacks if job.attacking is not None]
        # Only these columns are read of the outcomes: texts and steps would take most of the time and memory.
        conditions: list[MetricOf] = ["attacks", "victims"]
        conditions += ["all attacks"] if len({spec.attack.name for spec in attacks}) > 1 else []
        try:
            metrics = self.metrics.all(*conditions, kinds={spec.task.kind for spec in attacks})
            columns_by_metric = (
                columns_of(metric.value, metric.harm, metric.units if metric.of_set else None) for metric in metrics
            )
            return frozenset({"example_id", "label"}.union(*columns_by_metric))
        except SuiteError:  # a file that is wrong is told where its metric is asked for
            return frozenset({"example_id", "status"})

    def values(self, run: SeedRun, metric: Metric, rater: int | None = None) -> Values | None:
        """Return the values whose share or mean is the metric, of a complete run of one attack or of several together.

        Examples in no denominator are left out. None where the RUN keeps no outcomes. Raises StoreError where they are
        damaged or missing, and ValueError where several attacks have different examples.
        """
        if not self.kept(run):
            return None
        observed = [self.observations(job, rater) for job in run.jobs]
        return by_unit(metric, Observations.together(observed, metric.harm) if len(observed) > 1 else observed[0])

    def kept(self, run: SeedRun) -> bool:
        """Whether the RUN keeps the outcomes of a complete run."""
        records = self.standing.records
        return all(records[job.key].outcomes is not None or self.store.content(job) is not None for job in run.jobs)

    def repeats(self, jobs: Collection[Job]) -> float:
        """Return how many of these attack jobs attacked the same example, on average over all examples; at least 1.

        The jobs are on one task. Trainings share all examples. Fine-tuning seeds draw theirs from one split, so their
        samples overlap. Where a record is missing, or outcomes are missing or damaged, seeds count as if they shared
        all, so an interval is never too narrow.
        """
        jobs_by_seed = Counter(job.seed for job in jobs)
        if len(jobs_by_seed) < 2 or any(job.key not in self.standing.records for job in jobs):
            return max(1, len(jobs))
        try:
            examples_by_seed = {job.seed: self._examples(job) for job in jobs}
        except StoreError:
            return len(jobs)
        all_examples: frozenset[str] = frozenset().union(*examples_by_seed.values())
        # Each example counts once for each seed that drew it, divided by how many different examples there are.
        return sum(jobs_by_seed[seed] * len(examples) for seed, examples in examples_by_seed.items()) / max(
            1, len(all_examples)
        )

    def _examples(self, job: Job) -> frozenset[str]:
        spec = job.attacking
        assert spec is not None
        # What decides the sample, and nothing else: encoders and attacks of a seed attack the same examples.
        key = spec.task.name, spec.data_fingerprint, spec.split, spec.num_examples, job.seed
        if key not in self._drawn:
            self._drawn[key] = frozenset(self.observations(job).unit.tolist())
        return self._drawn[key]


@dataclass(frozen=True)
class SeedRun:
    """One job of a cell and, where there is one, its record; of an attack that is complete also its tally."""

    job: Job
    record: Record | None
    tally: Tally | None = None
    train_seed: int | None = None
    """The training seed of its encoder; None without `train_seeds`, or where rbench does not train the encoder."""
    others: tuple[Job, ...] = ()
    """In a run of several attacks together (`tables.any_attack`), the jobs of all but the first of them."""

    @classmethod
    def of(cls, job: Job, record: Record | None, train_seed: int | None) -> Self:
        attacked = job.attacking is not None and record is not None and record.status == "complete"
        return cls(job, record, Tally.of_record(record) if attacked and record is not None else None, train_seed)

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
    def done(self) -> bool:
        """Whether the job, or each of several attacks together, is complete."""
        return self.tally is not None or (self.record is not None and self.record.status == "complete")

    @property
    def failed(self) -> bool:
        return self.record is not None and self.record.status == "failed"


def load_plan(store: RunReader) -> Plan:
    """Return the plan in `store`. Raises StoreError where there is none, for instance because the path is mistyped."""
    return store.existing_plan()
