"""Collect what victims did on sets of texts that are classified as they are: contrast sets and adversarial sets.

As with attacks, the plan determines the shape and order of the grid, whatever is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rbench.errors import StoreError
from rbench.score import mean_score
from rbench.spec import Draw, Job, Plan, Record, Score
from rbench.storage.runs import Reader
from rbench.storage.standing import Standing
from rbench.tables.aggregate import Results, in_order
from rbench.tables.draws import means, plain, within
from rbench.tables.flags import Flags
from rbench.tables.levels import limits, observed
from rbench.tables.predicted_values import predicted_values
from rbench.tables.table import MEANING, Draws, Number

Victim = tuple[str, str]
"""Encoder and strategy."""
Set = tuple[str, str]
"""Task and name of a set."""
ABOUT = MEANING["contrast"]
"""The scale and direction of accuracies on any set."""


@dataclass(frozen=True)
class SetCell:
    """All seeds, of training and of fine-tuning, of one victim on one set."""

    encoder: str
    finetune: str
    task: str
    set: str
    jobs: tuple[Job, ...]
    records: tuple[Record, ...]
    """Records of the jobs that are complete."""
    provisional: bool = False
    """Whether the cell was picked among cells that are not all complete, so that another may turn out better."""
    draws: Mapping[str, Draw] = field(default_factory=dict)
    """Of the plan; see `Plan.draws`."""
    store: Reader | None = field(default=None, compare=False, repr=False)
    """Where the predictions are."""

    @property
    def complete(self) -> bool:
        """Whether all seeds are done."""
        return len(self.records) == len(self.jobs)

    @property
    def partial(self) -> bool:
        """Whether some seeds are done while others, of this cell or of those it was picked among, are not."""
        return bool(self.records) and (self.provisional or not self.complete)

    def score(self, name: str) -> tuple[Score, float | None] | None:
        """Return a score's mean over the finished seeds, and its standard deviation between seeds of fine-tuning; None
        where no seed is finished."""
        if not self.records:
            return None
        mean = mean_score([score_of(record, name) for record in self.records])[0]
        if (ends := self._limits(name)) is not None:
            mean = mean.model_copy(update={"low": ends[0], "high": ends[1]})
        return mean, within(self._values(name))

    def levelled(self, name: str) -> bool:
        """Whether the interval of `score` covers differences between seeds, too."""
        return self._limits(name) is not None

    def _limits(self, name: str) -> tuple[float, float] | None:
        """Return the interval with seeds as levels; None for one victim, and where predictions do not give it."""
        if self.store is None or len(self.records) < 2:
            return None
        if name not in self._known:
            jobs = [record.job for record in self.records]
            found = observed((job.seed, self.train_seed(job), predicted_values(self.store, job, name)) for job in jobs)
            self._known[name] = limits([found], shares=True)
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, tuple[float, float] | None]:
        """What `_limits` has computed, by score."""
        return {}

    def by_training(self, name: str) -> Draws | None:
        """Return a score by training seed; None without `train_seeds`."""
        several = len({job.seed for job in self.jobs}) > 1
        return Draws(means(self._values(name)), several) if self.draws else None

    def train_seed(self, job: Job) -> int | None:
        """Return the training seed of a job's encoder; None where it has none."""
        draw = self.draws.get(job.parts[0])
        return draw.train_seed if draw is not None else None

    def _values(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(self.train_seed(record.job), score_of(record, name).value) for record in self.records]

    def number(self, name: str) -> Number | None:
        """Return the mean of a score as a table entry; None where no seed is done."""
        if (found := self.score(name)) is None:
            return None
        return Number.of(found[0], ABOUT, seed_sd=found[1], draws=self.by_training(name), partial=self.partial)


@dataclass(frozen=True)
class OnSets:
    """The evaluations on sets of one kind in a plan, in the order of the suite."""

    plan: Plan
    victims: tuple[Victim, ...]
    sets: tuple[Set, ...]
    cells: Mapping[tuple[Victim, Set], SetCell]
    standing: Standing
    """State of all jobs of the plan."""
    notes: tuple[str, ...] = ()
    """Notes on cells of the plan that were left out."""

    @cached_property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return Flags(self.plan, self.standing.records)

    @property
    def several(self) -> bool:
        """Whether there are several strategies."""
        return len({finetune for _, finetune in self.victims}) > 1

    @property
    def shown(self) -> list[Job]:
        """The jobs of all cells."""
        return [job for cell in self.cells.values() for job in cell.jobs]

    def number(self, cell: SetCell, name: str) -> Number | None:
        """Return the mean of a score as a table entry; None where no seed is done."""
        number = cell.number(name)
        return self.flags.on(number, cell.jobs) if number is not None else None

    def rows(self, names: Sequence[str]) -> list[list[Number | None]]:
        """Return the entries of each victim: of each set, these scores."""
        found = [[self.cells.get((victim, of)) for of in self.sets] for victim in self.victims]
        return [[self.number(cell, name) if cell else None for cell in row for name in names] for row in found]

    def scores(self, cell: SetCell, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return scores of a cell for programs. Those that the suite withholds have no value."""
        scores = {}
        for name in names:
            score, sd = cell.score(name) or (Score(name=name, value=None, n=0), None)
            scores[name] = {**score.model_dump(include={"value", "n", "low", "high"}), "seed_sd": sd}
            scores[name] |= plain(cell.by_training(name))
            if self.flags.hiding(cell.jobs):
                scores[name] |= dict.fromkeys(scores[name].keys() & {"value", "low", "high", "seed_sd", "train_sd"})
        return scores


def on_sets(results: Results, measure: str, missing: str) -> OnSets:
    """Collect the evaluations on sets in a RUN.

    Args:
        results: the RUN.
        measure: the name of the measure whose jobs these are.
        missing: what the error says of a suite that has none.

    Raises StoreError where the plan has none.
    """
    plan = results.plan
    jobs: dict[tuple[Victim, Set], list[Job]] = {}
    for job in (job for job in plan.jobs if job.what == measure):
        label, task, finetune, name = job.parts
        jobs.setdefault(((plan.draw(label).encoder, finetune), (task, name)), []).append(job)
    if not jobs:
        raise StoreError(f"{results.root} has no table of {missing}")
    encoders = in_order(plan.suite.lineup, (victim[0] for victim, _ in jobs))
    finetunes = in_order((choice.label for choice in plan.suite.finetune), (victim[1] for victim, _ in jobs))
    tasks = in_order(plan.suite.tasks, (task for _, (task, _) in jobs))
    victims = [(encoder, finetune) for encoder in encoders for finetune in finetunes]
    sets = sorted(dict.fromkeys(of for _, of in jobs), key=lambda of: tasks.index(of[0]))
    cells = {
        (victim, of): _cell(victim, of, jobs[victim, of], results)
        for victim in victims
        for of in sets
        if (victim, of) in jobs
    }
    there = tuple(victim for victim in victims if any((victim, of) in cells for of in sets))
    return OnSets(plan, there, tuple(sets), cells, results.standing)


def _cell(victim: Victim, of: Set, jobs: Sequence[Job], results: Results) -> SetCell:
    found = (results.standing.records.get(job.key) for job in jobs)
    done = tuple(record for record in found if record is not None and record.status == "complete")
    return SetCell(*victim, *of, tuple(jobs), done, draws=results.plan.draws, store=results.store)


def score_of(record: Record, name: str) -> Score:
    """Return one of a record's scores. Raises StoreError where it is missing."""
    found = next((score for score in record.scores if score.name == name), None)
    if found is None:
        raise StoreError(f"the record of {record.job.name} has no {name}. Delete it, and the job runs again.")
    return found
