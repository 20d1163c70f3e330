"""The cells of the attack jobs of a RUN: (attack, encoder, finetune, task), and their numbers.

Numbers are made of records where these hold what a metric needs, and otherwise of `Results.observations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rbench.errors import StoreError
from rbench.metrics import Metric, Proportion, Sample, Tally, pooled, pooled_values
from rbench.schema import CONTRAST, Meaning, Outcome, Score
from rbench.score import make_score
from rbench.score.paired import number_names
from rbench.tables import cells, nested_means
from rbench.tables.cells import gather_cells, with_seed_levels
from rbench.tables.nested_means import Values
from rbench.tables.results import Results, SeedRun
from rbench.tables.table import CellKey

ANY = "any attack"
"""Stands for all attacks in the column of attacks."""
NO_ATTACK = ""
"""Stands in the column of attacks for what a victim is before any of them."""
AXES = ("attack", "encoder", "finetune", "task")
"""What names a cell of attacks."""


@dataclass(frozen=True)
class AttackCell(cells.Cell):
    """All seeds of one (attack, encoder, finetune, task)."""

    @property
    def key(self) -> CellKey:
        return self.attack, self.encoder, self.finetune, self.task

    @property
    def tallies(self) -> list[Tally]:
        return [run.tally for run in self.runs if run.tally is not None]

    @property
    def pooled(self) -> Tally:
        """The counts of the seeds that are done, added up; all zero where none is done."""
        return Tally.pooled(self.tallies) if self.tallies else Tally()

    @cached_property
    def repeats(self) -> float:
        """How many seeds and trainings attacked an example, on average, for `Tally.score`."""
        return self.results.repeats([run.job for run in self.done])

    def has(self, name: str) -> bool:
        """Whether a metric has a number for such a cell: of one attack, or of all attacks on a victim at once."""
        metric = self.results.metrics[name]
        if self.attack == ANY:
            return metric.together or metric.of != "attacks"
        return metric.of != "all attacks"

    def sampled(self, name: str) -> Score:
        """The metric on the pooled examples. Its interval counts an example once, however many victims share it.

        That of what people said has raters as a level.
        """
        pooled_score = make_score(name, self.pooled_metric(name), self.repeats)
        if not self.results.metrics[name].of_people or pooled_score.value is None:
            return pooled_score
        if (key := (self.known_as(name), "judged")) not in self.results.limits:
            self.results.limits[key] = self._judged_limits(name, pooled_score.value)
        return with_seed_levels(pooled_score, self.results.limits[key])

    def lost(self, name: str) -> bool:
        """Whether the metric is computed from outcomes which the RUN does not keep."""
        return None in [value for _, value in self.found(name)]

    def metric_of_run(self, run: SeedRun, name: str) -> Proportion | Sample | None:
        """The metric of a run that is done; None where it is computed from outcomes that are lost."""
        metric = self.results.metrics[name]
        assert run.tally is not None
        if metric.of_counts:
            counted: Proportion | Sample = metric.counted(run.tally)
            return counted
        try:
            values = self.results.values(run, metric)
        except StoreError:
            return None
        return None if values is None else pooled_values(metric, values.values())

    def found(self, name: str) -> list[tuple[SeedRun, Proportion | Sample | None]]:
        """Return the metric of each run that is done; None where it is lost."""
        return [(run, self.metric_of_run(run, name)) for run in self.done]

    def pooled_metric(self, name: str) -> Proportion | Sample:
        """The metric of all that is done; of nothing, if there is no such number or outcomes are lost."""
        metric, cache = self.results.metrics[name], self.results.pooled
        if (key := self.known_as(name)) not in cache:
            if not self.has(name):
                pooled_value = pooled(metric, ())
            elif metric.of_counts:
                pooled_value = metric.counted(self.pooled)
            else:
                values = [value for _, value in self.found(name)]
                pooled_value = pooled(
                    metric, () if None in values else (value for value in values if value is not None)
                )
            cache[key] = pooled_value
        return cache[key]

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, value.mean if value is not None else None) for run, value in self.found(name)]

    def score(self, name: str) -> Score:
        """The number over all seeds that are done. The interval of a part ends where that of the whole does."""
        limited = with_seed_levels(self.sampled(name), self.limits(name))
        metric = self.results.metrics.get(name)  # None of the numbers that a measure has beside metrics
        whole = metric.part_of if metric is not None else None
        if not whole or limited.value is None or limited.high is None:
            return limited
        upper_limit = self.score(whole).high
        if upper_limit is None:
            return limited
        return limited.model_copy(update={"high": max(limited.value, min(limited.high, upper_limit))})

    def values(self, run: SeedRun, name: str) -> Values | None:
        return self.results.values(run, self.results.metrics[name])

    def by_rater(self, run: SeedRun, name: str) -> dict[str, Values]:
        metric, judgements = self.results.metrics[name], self.results.judged
        if not metric.of_people or judgements is None:
            return {}
        return {
            f"{judgements.sheet.id}/{rater}": self.results.values(run, metric, rater) or {}
            for rater in judgements.raters
        }

    def limits(self, name: str) -> tuple[float, float] | None:
        if self.pooled_metric(name).mean is None:
            return None
        try:
            ends = super().limits(name)
        except StoreError:  # outcomes are missing or damaged
            # Remembered, so that other tables do not try to read the same damaged outcomes again.
            return self.results.limits.setdefault(self.known_as(name), None)
        if ends is None or not self.results.metrics[name].of_people:
            return ends
        people_score = self.sampled(name)
        assert people_score.low is not None and people_score.high is not None
        # Two estimates of the same interval: the wider one of both is taken, within 0..1.
        return max(0.0, min(ends[0], people_score.low)), min(1.0, max(ends[1], people_score.high))

    def _judged_limits(self, name: str, value: float) -> tuple[float, float]:
        """Return the interval of a number of what people said, with texts and raters as levels (`score.people`).

        A text that several seeds attacked counts once.
        """
        from rbench.score.people import accepted_limits, limits_of_product, rater_variance_of_sums, widen_by_raters

        metric, judgements = self.results.metrics[name], self.results.judged
        assert metric.of_people and judgements is not None
        by_text: dict[str, list[float]] = {}
        for run in self.done:
            observations = self.results.observations(run.job)
            for unit, share in zip(observations.unit.tolist(), metric.judged(observations).tolist(), strict=True):
                if not math.isnan(share):
                    by_text.setdefault(unit, []).append(share)
        shares = np.array([sum(shares_of_text) / len(shares_of_text) for shares_of_text in by_text.values()] or [0.0])
        if not metric.of_set:
            text_limits = accepted_limits(shares, len(judgements.raters))
        else:
            counts = self.pooled.succeeded, self.pooled.succeeded + self.pooled.failed
            rate, ends = (
                (counts[0] / self.repeats, counts[1] / self.repeats),
                accepted_limits(shares, len(judgements.raters)),
            )
            text_limits = limits_of_product(rate, float(shares.mean()), ends)
        observed = nested_means.build_part(
            [(shares_of_text, 0) for shares_of_text in self.observed(name) or ()], 1.0, "", ""
        )
        # An example id is `seed/id`; texts are compared whatever the seed that attacked them.
        units = number_names(example.partition("/")[2] for example in observed.examples)
        by_rater = {rater: np.array(of_rater) / len(of_rater) for rater, of_rater in (observed.by_rater or {}).items()}
        return widen_by_raters(value, text_limits, rater_variance_of_sums([(by_rater, units)]))

    def shares(self, name: str) -> bool:
        return self.results.metrics[name].share

    def meaning(self, name: str) -> Meaning:
        return self.results.metrics[name].about

    def _of_the_attack(self, name: str) -> bool:
        """Those of an attack do not withhold what a victim is before it."""
        return self.results.metrics[name].of != "victims"


@dataclass(frozen=True)
class AttackGrid(cells.Grid[AttackCell]):
    """All cells of the attacks of a plan, by attack, encoder, strategy and task."""

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
            task
            for task in self.tasks
            if any(run.spec.task.of_kind.has_scores for run in self.runs if run.spec.task.name == task)
        )

    @cached_property
    def several(self) -> bool:
        """Whether a task has victims of several strategies. Otherwise a task and an encoder name a victim."""
        return len({(cell.task, cell.finetune) for cell in self.cells.values()}) > len(self.tasks)

    def cell(self, attack: str, encoder: str, finetune: str | None, task: str) -> AttackCell | None:
        """Return a cell, or None where the plan has none. Without a strategy, it is that of the task's only one."""
        names = self.finetunes if finetune is None else (finetune,)
        return next((self.cells[key] for name in names if (key := (attack, encoder, name, task)) in self.cells), None)

    def shown(self, attack: str, encoder: str, finetune: str, task: str) -> AttackCell | None:
        """Return a cell that is done; without an attack the victim's first one, since all attack the same examples."""
        attacks = (attack,) if attack else self.attacks
        cells = (self.cells.get((candidate, encoder, finetune, task)) for candidate in attacks)
        return next((cell for cell in cells if cell is not None and cell.present), None)

    def before_attacks(self) -> AttackGrid:
        """Return the grid with one cell for each victim, under no attack: what a victim is before attacks is the same
        in all of them. The cell is that of the attack of which most seeds are done; it keeps the attack's name.
        """
        cells: dict[tuple[str, ...], AttackCell] = {}
        for (_, *victim), cell in self.cells.items():
            key = (NO_ATTACK, *victim)
            if key not in cells or len(cell.done) > len(cells[key].done):
                cells[key] = cell
        return replace(self, attacks=(NO_ATTACK,), cells=cells)

    def tasks_of(self, metric: Metric) -> tuple[str, ...]:
        """Return the tasks that have a metric."""
        if metric.of_people and self.results.judged is None:
            return ()
        with_metric = {run.spec.task.name for run in self.runs if metric.is_of(run.spec.task)}
        return tuple(task for task in self.tasks if task in with_metric)

    def has_oracle(self, task: str) -> bool:
        """Whether an oracle computes the true label of any text of this task (only tasks of the embedded world)."""
        return any(run.spec.task.name == task and run.spec.task.has_oracle for run in self.runs)


def attack_grid(results: Results) -> AttackGrid:
    """Return the cells of the attacks of a RUN's plan. Raises StoreError where it has no attack."""
    if "attacks" not in results.grids:
        results.grids["attacks"] = _build_attack_grid(results)
    attack_cells: AttackGrid = results.grids["attacks"]
    return attack_cells


def _build_attack_grid(results: Results) -> AttackGrid:
    plan, suite = results.plan, results.plan.suite
    named_jobs = []
    for job in plan.attacks:
        label, task, finetune, attack = job.parts
        named_jobs.append(
            (job, {"attack": attack, "encoder": plan.draw(label).encoder, "finetune": finetune, "task": task})
        )
    if not named_jobs:
        contrast = [job for job in plan.jobs if job.what == CONTRAST]
        available = {"sts": suite.evaluations, CONTRAST: contrast, "positives": suite.build}
        other_tables = " and ".join(metric for metric, planned in available.items() if planned)
        hint = f" What it has is in the table --metric {other_tables}." if other_tables else ""
        raise StoreError(f"{results.root} has no attack table: suite {suite.name} asks for no attacks.{hint}")
    orders = {
        "attack": (choice.label for choice in suite.attacks),
        "encoder": suite.lineup,
        "finetune": (choice.label for choice in suite.finetune),
        "task": suite.tasks,
    }
    # Seeds stand in the suite's order; those that it does not name any more come last.
    by_seed, by_training = _position_in_suite(suite.seeds), _position_in_suite(suite.train_seeds)

    def place(run: SeedRun) -> tuple[tuple[int, int], tuple[int, int]]:
        return by_training(run.train_seed or 0), by_seed(run.job.seed)

    def make_cell(runs: tuple[SeedRun, ...], **fields: Any) -> AttackCell:
        return AttackCell(runs=tuple(sorted(runs, key=place)), **fields)

    cells, names = gather_cells(results, named_jobs, orders, make_cell)
    return AttackGrid(results, cells, **names)


def _position_in_suite(seeds: tuple[int, ...]) -> Callable[[int], tuple[int, int]]:
    return lambda seed: (seeds.index(seed) if seed in seeds else len(seeds), seed)


@dataclass(frozen=True)
class AttackedSample:
    """The outcomes of one attack job that is complete, in the order of the store."""

    cell: AttackCell
    """Names the attack, encoder, strategy and task."""
    run: SeedRun
    """The job, with its seed and training seed."""
    outcomes: tuple[Outcome, ...]
    """Without texts where the RUN keeps none."""


def attacked(results: Results) -> Iterator[AttackedSample]:
    """Yield the complete attack jobs on test texts, cell by cell in the order of tables; one is in memory at a time.

    Raises StoreError where the suite asks for no attacks.
    """
    for cell in attack_grid(results).cells.values():
        for run in cell.runs:
            if run.tally is not None:
                yield AttackedSample(cell, run, tuple(results.store.outcomes(run.job)))
