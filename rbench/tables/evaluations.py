"""Lays out tables of STS evaluations: how well encoders do without being fine-tuned or attacked.

paper   Rows are encoders, columns are evaluations and their average. The best entry of each column is bold. A column
        with a missing entry has no best, and a row with a missing entry has no average.
full    Each (encoder, evaluation) has one row with every correlation.

As with attacks, the plan determines the shape and order, whatever is done. Only records are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rbench.errors import StoreError
from rbench.spec import EvaluateJob, EvaluationMetric, Flag, Job, Plan, Score
from rbench.storage.standing import Standing
from rbench.tables.aggregate import Results, in_order
from rbench.tables.columns import average, mark_best
from rbench.tables.flags import Flags
from rbench.tables.notes import missing, selected_steps
from rbench.tables.table import MEANING, Entry, Number, Table

_SCORE: dict[EvaluationMetric, str] = {"sts": "spearman"}
"""For each metric, the name of its score in a record."""
_SHOWN = {"spearman": "Spearman", "pearson": "Pearson"}
INTERVAL = (
    "95% intervals by Fisher's z, of Spearman's coefficient with the standard error of Bonett and Wright (2000). They "
    "cover the choice of pairs, not differences between training seeds."
)


@dataclass(frozen=True)
class Evaluated:
    """The evaluations of a plan, one job per cell (encoder, evaluation), and the state of each job."""

    plan: Plan
    encoders: tuple[str, ...]
    evaluations: tuple[str, ...]
    jobs: Mapping[tuple[str, str], Job]
    standing: Standing

    @cached_property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return Flags(self.plan, self.standing.records)

    def hiding(self, encoder: str, evaluation: str) -> tuple[Flag, ...]:
        """Return the flags that withhold a cell."""
        job = self.jobs.get((encoder, evaluation))
        return self.flags.hiding([job]) if job is not None else ()

    def number(self, encoder: str, evaluation: str, name: str, metric: EvaluationMetric) -> Number | None:
        """Return one of the scores of a cell as a table entry, or None where there is none yet."""
        score = self.score(encoder, evaluation, name)
        return None if score is None else Number.of(score, metric).hidden(self.hiding(encoder, evaluation))

    def score(self, encoder: str, evaluation: str, name: str) -> Score | None:
        """Return one of the scores of a cell, or None where there is none yet."""
        job = self.jobs.get((encoder, evaluation))
        record = self.standing.records.get(job.key) if job is not None else None
        if record is None or record.status != "complete":
            return None
        found = next((score for score in record.scores if score.name == name), None)
        if found is None:
            raise StoreError(f"the record of {record.job.name} has no {name}. Delete it, and the job runs again.")
        return found


def evaluated(results: Results) -> Evaluated:
    """Collect the evaluations of a RUN's plan. Raises StoreError where the plan has none."""
    plan = results.plan
    jobs = {
        (encoder, evaluation): job
        for job in plan.jobs
        if isinstance(job.spec, EvaluateJob)
        for encoder, evaluation in [job.parts]
    }
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
        numbers = [found.number(encoder, label, _SCORE[metric], metric) for label in found.evaluations]
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
        interval=INTERVAL,
        flags=found.flags.listed(found.jobs.values()),
    )


def full(found: Evaluated, metric: EvaluationMetric) -> Table:
    """Build the layout full: one row per cell, with every correlation. In cells for programs, `value` is `metric`."""
    rows: list[tuple[Entry, ...]] = []
    cells = []
    groups = set()
    for encoder, label in _cells(found):
        if rows and rows[-1][0] != encoder:
            groups.add(len(rows))
        scores = {name: found.score(encoder, label, name) for name in _SHOWN}
        n = next((score.n for score in scores.values() if score is not None), None)
        rows.append((encoder, label, n, *(found.number(encoder, label, name, metric) for name in _SHOWN)))
        hidden = bool(found.hiding(encoder, label))
        plain = {name: _plain(score, hidden) for name, score in scores.items()}
        cells.append(_cell(found, encoder, label, metric) | {"scores": plain})
    return Table(
        metric=metric,
        layout="full",
        header=("Encoder", "Evaluation", "n", *_SHOWN.values()),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(cells),
        notes=_notes(found, metric),
        interval=INTERVAL,
        flags=found.flags.listed(found.jobs.values()),
    )


def _cells(found: Evaluated) -> list[tuple[str, str]]:
    pairs = [(encoder, label) for encoder in found.encoders for label in found.evaluations]
    return [pair for pair in pairs if pair in found.jobs]


def _cell(found: Evaluated, encoder: str, label: str, metric: EvaluationMetric) -> dict[str, Any]:
    score = found.score(encoder, label, _SCORE[metric])
    told = found.flags.told([found.jobs[encoder, label]])
    return {"encoder": encoder, "evaluation": label, **_plain(score, bool(found.hiding(encoder, label))), "flags": told}


def _plain(score: Score | None, hidden: bool) -> dict[str, Any]:
    plain = (score or Score(name="", value=None, n=0)).model_dump(include={"value", "n", "low", "high"})
    return plain | dict.fromkeys(("value", "low", "high")) if hidden else plain


def _notes(found: Evaluated, metric: EvaluationMetric) -> tuple[str, ...]:
    """Return the notes below the table. As in `notes`, they hold neither times nor paths."""
    return (
        f"{MEANING[metric].title}: {MEANING[metric].definition}; the encoders are not fine-tuned.",
        *found.plan.suite.notes,
        f"n, the pairs of a column: {_sizes(found, metric)}.",
        *_task_notes(found),
        *selected_steps(found.plan),
        *found.flags.notes(found.jobs.values()),
        *missing("evaluations", found.jobs.values(), found.standing),
    )


def _sizes(found: Evaluated, metric: EvaluationMetric) -> str:
    sizes = {}
    for label in found.evaluations:
        scores = (found.score(encoder, label, _SCORE[metric]) for encoder in found.encoders)
        sizes[label] = next((score.n for score in scores if score is not None), None)
    return "; ".join(f"{label} {n}" for label, n in sizes.items() if n is not None) or "nothing yet"


def _task_notes(found: Evaluated) -> list[str]:
    """Return the notes in the tasks' files, for instance which encoders have seen their pairs."""
    tasks = {job.spec.task.name: job.spec.task for job in found.jobs.values() if isinstance(job.spec, EvaluateJob)}
    return [f"{name}: {note}" for name, task in tasks.items() for note in task.notes]
