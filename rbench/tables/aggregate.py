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
from rbench.metrics import Metric, Sample, Share, Tally, pooled, pooled_values
from rbench.schema import CONTRAST, Meaning, Outcome, Score
from rbench.score import scored
from rbench.score.paired import numbered
from rbench.tables import cells, nested_means
from rbench.tables.cells import gathered, levelled
from rbench.tables.nested_means import Values
from rbench.tables.results import Results, Run
from rbench.tables.table import CellKey

ANY = "any attack"
"""Stands for all attacks in the column of attacks."""
NO_ATTACK = ""
"""Stands in the column of attacks for what a victim is before any of them."""
AXES = ("attack", "encoder", "finetune", "task")
"""What names a cell of attacks."""


@dataclass(frozen=True)
class Cell(cells.Cell):
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
        found = scored(name, self.pooled_as(name), self.repeats)
        if not self.results.metrics[name].of_people or found.value is None:
            return found
        if (key := (self.known_as(name), "judged")) not in self.results.limits:
            self.results.limits[key] = self._judged_limits(name, found.value)
        return levelled(found, self.results.limits[key])

    def lost(self, name: str) -> bool:
        """Whether the metric is computed from outcomes which the RUN does not keep."""
        return None in [found for _, found in self.found(name)]

    def of_run(self, run: Run, name: str) -> Share | Sample | None:
        """The metric of a run that is done; None where it is computed from outcomes that are lost."""
        metric = self.results.metrics[name]
        assert run.tally is not None
        if metric.of_counts:
            counted: Share | Sample = metric.counted(run.tally)
            return counted
        try:
            values = self.results.values(run, metric)
        except StoreError:
            return None
        return None if values is None else pooled_values(metric, values.values())

    def found(self, name: str) -> list[tuple[Run, Share | Sample | None]]:
        """Return the metric of each run that is done; None where it is lost."""
        return [(run, self.of_run(run, name)) for run in self.done]

    def pooled_as(self, name: str) -> Share | Sample:
        """The metric of all that is done; of nothing, if there is no such number or outcomes are lost."""
        metric, known = self.results.metrics[name], self.results.pooled
        if (key := self.known_as(name)) not in known:
            if not self.has(name):
                found = pooled(metric, ())
            elif metric.of_counts:
                found = metric.counted(self.pooled)
            else:
                parts = [part for _, part in self.found(name)]
                found = pooled(metric, () if None in parts else (part for part in parts if part is not None))
            known[key] = found
        return known[key]

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, found.mean if found is not None else None) for run, found in self.found(name)]

    def score(self, name: str) -> Score:
        """The number over all seeds that are done. The interval of a part ends where that of the whole does."""
        found = levelled(self.sampled(name), self.limits(name))
        metric = self.results.metrics.get(name)  # None of the numbers that a measure has beside metrics
        whole = metric.part_of if metric is not None else None
        if not whole or found.value is None or found.high is None or (most := self.score(whole).high) is None:
            return found
        return found.model_copy(update={"high": max(found.value, min(found.high, most))})

    def values(self, run: Run, name: str) -> Values | None:
        return self.results.values(run, self.results.metrics[name])

    def by_rater(self, run: Run, name: str) -> dict[str, Values]:
        metric, said = self.results.metrics[name], self.results.judged
        if not metric.of_people or said is None:
            return {}
        return {f"{said.sheet.id}/{who}": self.results.values(run, metric, who) or {} for who in said.raters}

    def limits(self, name: str) -> tuple[float, float] | None:
        if self.pooled_as(name).mean is None:
            return None
        try:
            ends = super().limits(name)
        except StoreError:  # outcomes are missing or damaged
            return self.results.limits.setdefault(self.known_as(name), None)
        if ends is None or not self.results.metrics[name].of_people:
            return ends
        own = self.sampled(name)
        assert own.low is not None and own.high is not None
        return max(0.0, min(ends[0], own.low)), min(1.0, max(ends[1], own.high))

    def _judged_limits(self, name: str, value: float) -> tuple[float, float]:
        """Return the interval of a number of what people said, with texts and raters as levels (`score.people`).

        A text that several seeds attacked counts once.
        """
        from rbench.score.people import accepted_limits, between_sums, product_limits, widened

        metric, said = self.results.metrics[name], self.results.judged
        assert metric.of_people and said is not None
        by_text: dict[str, list[float]] = {}
        for run in self.done:
            of = self.results.observations(run.job)
            for unit, share in zip(of.unit.tolist(), metric.judged(of).tolist(), strict=True):
                if not math.isnan(share):
                    by_text.setdefault(unit, []).append(share)
        shares = np.array([sum(one) / len(one) for one in by_text.values()] or [0.0])
        if not metric.of_set:
            texts = accepted_limits(shares, len(said.raters))
        else:
            counts = self.pooled.succeeded, self.pooled.succeeded + self.pooled.failed
            rate, ends = (counts[0] / self.repeats, counts[1] / self.repeats), accepted_limits(shares, len(said.raters))
            texts = product_limits(rate, float(shares.mean()), ends)
        observed = nested_means.part([(one, 0) for one in self.observed(name) or ()], 1.0, "", "")
        units = numbered(example.partition("/")[2] for example in observed.examples)
        added = {who: np.array(own) / len(own) for who, own in (observed.by_rater or {}).items()}
        return widened(value, texts, between_sums([(added, units)]))

    def shares(self, name: str) -> bool:
        return self.results.metrics[name].share

    def meaning(self, name: str) -> Meaning:
        return self.results.metrics[name].about

    def _of_the_attack(self, name: str) -> bool:
        """Those of an attack do not withhold what a victim is before it."""
        return self.results.metrics[name].of != "victims"


@dataclass(frozen=True)
class Grid(cells.Grid[Cell]):
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
            if any(r.spec.task.of_kind.has_scores for r in self.runs if r.spec.task.name == task)
        )

    @cached_property
    def several(self) -> bool:
        """Whether a task has victims of several strategies. Otherwise a task and an encoder name a victim."""
        return len({(cell.task, cell.finetune) for cell in self.cells.values()}) > len(self.tasks)

    def cell(self, attack: str, encoder: str, finetune: str | None, task: str) -> Cell | None:
        """Return a cell, or None where the plan has none. Without a strategy, it is that of the task's only one."""
        names = self.finetunes if finetune is None else (finetune,)
        return next((self.cells[key] for name in names if (key := (attack, encoder, name, task)) in self.cells), None)

    def shown(self, attack: str, encoder: str, finetune: str, task: str) -> Cell | None:
        """Return a cell that is done; without an attack the victim's first one, since all attack the same examples."""
        attacks = (attack,) if attack else self.attacks
        cells = (self.cells.get((one, encoder, finetune, task)) for one in attacks)
        return next((cell for cell in cells if cell is not None and cell.present), None)

    def of_victims(self) -> Grid:
        """Return the grid with one cell for each victim, under no attack: what a victim is before attacks is the same
        in all of them. The cell is that of the attack of which most seeds are done; it keeps the attack's name.
        """
        found: dict[tuple[str, ...], Cell] = {}
        for (_, *victim), cell in self.cells.items():
            key = (NO_ATTACK, *victim)
            if key not in found or len(cell.done) > len(found[key].done):
                found[key] = cell
        return replace(self, attacks=(NO_ATTACK,), cells=found)

    def tasks_of(self, metric: Metric) -> tuple[str, ...]:
        """Return the tasks that have a metric."""
        if metric.of_people and self.results.judged is None:
            return ()
        having = {run.spec.task.name for run in self.runs if metric.is_of(run.spec.task)}
        return tuple(task for task in self.tasks if task in having)

    def has_oracle(self, task: str) -> bool:
        """Whether an oracle computes the true label of any text of this task (only tasks of the embedded world)."""
        return any(run.spec.task.name == task and run.spec.task.has_oracle for run in self.runs)


def grid(results: Results) -> Grid:
    """Return the cells of the attacks of a RUN's plan. Raises StoreError where it has no attack."""
    if "attacks" not in results.grids:
        results.grids["attacks"] = _built(results)
    found: Grid = results.grids["attacks"]
    return found


def _built(results: Results) -> Grid:
    plan, suite = results.plan, results.plan.suite
    named = []
    for job in plan.attacks:
        label, task, finetune, attack = job.parts
        named.append((job, {"attack": attack, "encoder": plan.draw(label).encoder, "finetune": finetune, "task": task}))
    if not named:
        contrast = [job for job in plan.jobs if job.what == CONTRAST]
        there = {"sts": suite.evaluations, CONTRAST: contrast, "positives": suite.build}
        has = " and ".join(metric for metric, asked in there.items() if asked)
        hint = f" What it has is in the table --metric {has}." if has else ""
        raise StoreError(f"{results.root} has no attack table: suite {suite.name} asks for no attacks.{hint}")
    orders = {
        "attack": (choice.label for choice in suite.attacks),
        "encoder": suite.lineup,
        "finetune": (choice.label for choice in suite.finetune),
        "task": suite.tasks,
    }
    by_seed, by_training = _position(suite.seeds), _position(suite.train_seeds)

    def place(run: Run) -> tuple[tuple[int, int], tuple[int, int]]:
        return by_training(run.train_seed or 0), by_seed(run.job.seed)

    def made(runs: tuple[Run, ...], **fields: Any) -> Cell:
        return Cell(runs=tuple(sorted(runs, key=place)), **fields)

    found, names = gathered(results, named, orders, made)
    return Grid(results, found, **names)


def _position(seeds: tuple[int, ...]) -> Callable[[int], tuple[int, int]]:
    return lambda seed: (seeds.index(seed) if seed in seeds else len(seeds), seed)


@dataclass(frozen=True)
class AttackedSample:
    """The outcomes of one attack job that is complete, in the order of the store."""

    cell: Cell
    """Names the attack, encoder, strategy and task."""
    run: Run
    """The job, with its seed and training seed."""
    outcomes: tuple[Outcome, ...]
    """Without texts where the RUN keeps none."""


def attacked(results: Results) -> Iterator[AttackedSample]:
    """Yield the complete attack jobs on test texts, cell by cell in the order of tables; one is in memory at a time.

    Raises StoreError where the suite asks for no attacks.
    """
    for cell in grid(results).cells.values():
        for run in cell.runs:
            if run.tally is not None:
                yield AttackedSample(cell, run, tuple(results.store.outcomes(run.job)))
