"""Lays out tables of STS evaluations: how well encoders do without being fine-tuned or attacked.

paper   Rows are encoders, columns are evaluations and their average. The best entry of each column is bold. A column
        with a missing entry has no best, and a row with a missing entry has no average. With `train_seeds` an entry is
        the mean over the trainings of an encoder.
full    Each (encoder, evaluation), or each training seed of it, has one row with every correlation.

As with attacks, the plan determines the shape and order, whatever is done. Only records are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rbench.errors import StoreError
from rbench.score import mean_correlation
from rbench.spec import EvaluateJob, EvaluationMetric, Flag, Job, Plan, Score
from rbench.storage.standing import Standing
from rbench.tables import variants
from rbench.tables.aggregate import Results, in_order
from rbench.tables.columns import average, mark_best
from rbench.tables.draws import COVERED, means, plain, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.flags import Flags
from rbench.tables.notes import missing, selected_steps
from rbench.tables.table import MEANING, Draws, Entry, Number, Table

_SCORE: dict[EvaluationMetric, str] = {"sts": "spearman"}
"""For each metric, the name of its score in a record."""
_SHOWN = {"spearman": "Spearman", "pearson": "Pearson"}
INTERVAL = (
    "95% intervals by Fisher's z, of Spearman's coefficient with the standard error of Bonett and Wright (2000). They "
    "cover the choice of pairs, not differences between training seeds."
)

_DRAWN = (
    "95% intervals by Fisher's z around the mean over training seeds, of Spearman's coefficient with the standard "
    "error of Bonett and Wright (2000), as wide as that of one encoder. " + COVERED.format(what="pairs")
)


@dataclass(frozen=True)
class Evaluated:
    """The evaluations of a plan, one job per training seed of a cell (encoder, evaluation), and the state of each."""

    plan: Plan
    encoders: tuple[str, ...]
    evaluations: tuple[str, ...]
    jobs: Mapping[tuple[str, str], tuple[Job, ...]]
    standing: Standing

    @cached_property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return Flags(self.plan, self.standing.records)

    def hiding(self, encoder: str, evaluation: str) -> tuple[Flag, ...]:
        """Return the flags that withhold a cell."""
        return self.flags.hiding(self.jobs.get((encoder, evaluation), ()))

    def score(self, encoder: str, evaluation: str, name: str) -> Score | None:
        """Return one of the scores of a cell, the mean over its training seeds, or None where there is none yet."""
        done = [score for _, score in self._scores(encoder, evaluation, name)]
        return mean_correlation(done) if done else None

    def number(self, encoder: str, evaluation: str, metric: EvaluationMetric) -> Number | None:
        """Return the metric of a cell as a table entry, or None where there is none yet."""
        score = self.score(encoder, evaluation, _SCORE[metric])
        if score is None:
            return None
        draws, partial = self.draws(encoder, evaluation, _SCORE[metric]), self._partial(encoder, evaluation, metric)
        number = Number.of(score, metric, draws=draws, partial=partial)
        return number.hidden(self.hiding(encoder, evaluation))

    def draws(self, encoder: str, evaluation: str, name: str) -> Draws | None:
        """Return a score by training seed; None without `train_seeds`."""
        if not self.plan.draws:
            return None
        return Draws(means((seed, score.value) for seed, score in self._scores(encoder, evaluation, name)))

    def train_seed(self, job: Job) -> int | None:
        """Return the training seed of a job's encoder; None where it has none."""
        return self.plan.draw(job.parts[0]).train_seed

    def _partial(self, encoder: str, evaluation: str, metric: EvaluationMetric) -> bool:
        return len(self._scores(encoder, evaluation, _SCORE[metric])) < len(self.jobs[encoder, evaluation])

    def _scores(self, encoder: str, evaluation: str, name: str) -> list[tuple[int | None, Score]]:
        jobs = self.jobs.get((encoder, evaluation), ())
        return [(self.train_seed(job), score) for job in jobs if (score := self.score_of(job, name)) is not None]

    def score_of(self, job: Job, name: str) -> Score | None:
        """Return one of the scores of a job, or None where there is none yet."""
        record = self.standing.records.get(job.key)
        if record is None or record.status != "complete":
            return None
        found = next((score for score in record.scores if score.name == name), None)
        if found is None:
            raise StoreError(f"the record of {record.job.name} has no {name}. Delete it, and the job runs again.")
        return found


def evaluated(results: Results) -> Evaluated:
    """Collect the evaluations of a RUN's plan. Raises StoreError where the plan has none."""
    plan = results.plan
    jobs: dict[tuple[str, str], tuple[Job, ...]] = {}
    for job in plan.jobs:
        if isinstance(job.spec, EvaluateJob):
            label, evaluation = job.parts
            cell = plan.draw(label).encoder, evaluation
            jobs[cell] = (*jobs.get(cell, ()), job)
    if not jobs:
        raise StoreError(
            f"{results.root} has no table of evaluations: suite {plan.suite.name} has no STS task under `evaluate`."
        )
    return Evaluated(
        plan,
        in_order(plan.suite.encoders, (encoder for encoder, _ in jobs)),
        in_order((evaluation.label for evaluation in plan.suite.evaluations), (label for _, label in jobs)),
        jobs,
        results.standing,
    )


def paper(found: Evaluated, metric: EvaluationMetric) -> Table:
    """Build the layout paper: encoders in rows, evaluations in columns."""
    rows = []
    for encoder in found.encoders:
        numbers = [found.number(encoder, label, metric) for label in found.evaluations]
        rows.append([*numbers, *average(numbers, metric)])
    several = ["Avg."] if len(found.evaluations) > 1 else []
    marked = mark_best(rows, [metric] * (len(found.evaluations) + len(several)))
    shown: list[tuple[Entry, ...]] = [(name, *row) for name, row in zip(found.encoders, marked, strict=True)]
    return Table(
        metric=metric,
        layout="paper",
        header=("Encoder", *found.evaluations, *several),
        rows=tuple(shown),
        groups=frozenset(),
        cells=tuple(_cell(found, encoder, label, metric) for encoder, label in _cells(found)),
        notes=_notes(found, metric),
        interval=_interval(found),
        flags=found.flags.listed(_jobs(found)),
    )


def _interval(found: Evaluated) -> str:
    return _DRAWN if found.plan.draws else INTERVAL


def full(found: Evaluated, metric: EvaluationMetric) -> Table:
    """Build the layout full: one row per job, with every correlation. In cells for programs, `value` is `metric`."""
    drawn = bool(found.plan.draws)
    rows: list[tuple[Entry, ...]] = []
    cells = []
    groups = set()
    for encoder, label in _cells(found):
        if rows and rows[-1][0] != encoder:
            groups.add(len(rows))
        for job in found.jobs[encoder, label]:
            hiding = found.flags.hiding([job])
            scores = {name: found.score_of(job, name) for name in _SHOWN}
            n = next((score.n for score in scores.values() if score is not None), None)
            names: list[Entry] = [encoder, label, *([training_seed(found.train_seed(job))] if drawn else [])]
            numbers = [Number.of(s, metric).hidden(hiding) if s is not None else None for s in scores.values()]
            rows.append((*names, n, *numbers))
            told = {name: _plain(score, bool(hiding)) for name, score in scores.items()}
            more = {"train_seed": found.train_seed(job)} if drawn else {}
            cell = {"encoder": encoder, "evaluation": label, **more, **told[_SCORE[metric]]}
            cells.append(cell | {"flags": found.flags.told([job]), "scores": told})
    return Table(
        metric=metric,
        layout="full",
        header=("Encoder", "Evaluation", *(["Training seed"] if drawn else []), "n", *_SHOWN.values()),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(cells),
        notes=_notes(found, metric),
        interval=_interval(found),
        flags=found.flags.listed(_jobs(found)),
    )


def _cells(found: Evaluated) -> list[tuple[str, str]]:
    pairs = [(encoder, label) for encoder in found.encoders for label in found.evaluations]
    return [pair for pair in pairs if pair in found.jobs]


def _cell(found: Evaluated, encoder: str, label: str, metric: EvaluationMetric) -> dict[str, Any]:
    name, hidden = _SCORE[metric], bool(found.hiding(encoder, label))
    draws = plain(found.draws(encoder, label, name))
    return {
        "encoder": encoder,
        "evaluation": label,
        **_plain(found.score(encoder, label, name), hidden),
        **(dict.fromkeys(draws) if hidden else draws),
        "flags": found.flags.told(found.jobs[encoder, label]),
    }


def _plain(score: Score | None, hidden: bool) -> dict[str, Any]:
    plain = (score or Score(name="", value=None, n=0)).model_dump(include={"value", "n", "low", "high"})
    return plain | dict.fromkeys(("value", "low", "high")) if hidden else plain


def _notes(found: Evaluated, metric: EvaluationMetric) -> tuple[str, ...]:
    """Return the notes below the table. As in `notes`, they hold neither times nor paths."""
    return (
        f"{MEANING[metric].title}: {MEANING[metric].definition}; the encoders are not fine-tuned.",
        *found.plan.suite.notes,
        f"n, the pairs of a column: {_sizes(found, metric)}.",
        *draw_notes(found.plan, _jobs(found)),
        *_task_notes(found),
        *variants.notes(found.plan, found.flags.behind(_jobs(found))),
        *selected_steps(found.plan),
        *found.flags.notes(_jobs(found)),
        *missing("evaluations", _jobs(found), found.standing),
    )


def _jobs(found: Evaluated) -> list[Job]:
    return [job for jobs in found.jobs.values() for job in jobs]


def _sizes(found: Evaluated, metric: EvaluationMetric) -> str:
    sizes = {}
    for label in found.evaluations:
        scores = (found.score(encoder, label, _SCORE[metric]) for encoder in found.encoders)
        sizes[label] = next((score.n for score in scores if score is not None), None)
    return "; ".join(f"{label} {n}" for label, n in sizes.items() if n is not None) or "nothing yet"


def _task_notes(found: Evaluated) -> list[str]:
    """Return the notes in the tasks' files, for instance which encoders have seen their pairs."""
    tasks = {job.spec.task.name: job.spec.task for job in _jobs(found) if isinstance(job.spec, EvaluateJob)}
    return [f"{name}: {note}" for name, task in tasks.items() for note in task.notes]
