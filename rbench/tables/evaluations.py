"""Lays out tables of STS evaluations: how well encoders do without being fine-tuned or attacked.

paper   Rows are encoders, columns are evaluations and their average. The best entry of each column is bold. A column
        with a missing entry has no best, and a row with a missing entry has no average. With `train_seeds` an entry is
        the mean over the trainings of an encoder.
full    Each (encoder, evaluation), or each training seed of it, has one row with every correlation, and one for each
        subset of the evaluation.

As with attacks, the plan determines the shape and order, whatever is done. Records are read, and the cosines of several
trainings, for their intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rbench.errors import StoreError
from rbench.score import average as average_of
from rbench.score import mean_correlation, over_trainings
from rbench.score.sts import FEWEST
from rbench.spec import STS, Aggregation, EvaluationMetric, Flag, Job, Plan, Record, Score
from rbench.storage.runs import Reader
from rbench.storage.standing import Standing
from rbench.tables import variants
from rbench.tables.aggregate import Results, in_order
from rbench.tables.columns import average, mark_best
from rbench.tables.draws import levels_note, means, plain, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.flags import Flags
from rbench.tables.levels import Observed, limits, observed
from rbench.tables.notes import missing, selected_steps
from rbench.tables.sts_sets import MARK, Sets, has_subsets, left_out, subset_scores
from rbench.tables.table import MEANING, Draws, Entry, Number, Table
from rbench.tables.vector_values import vector_values

_SCORE: dict[EvaluationMetric, str] = {"sts": "spearman"}
"""For each metric, the name of its score in a record."""
_SHOWN = {"spearman": "Spearman", "pearson": "Pearson"}
INTERVAL = (
    "95% intervals by Fisher's z, of Spearman's coefficient with the standard error of Bonett and Wright (2000). They "
    "cover the choice of pairs, not differences between training seeds."
)
_AVERAGED = (
    " Those of averages follow from the standard errors of each set or subset by the influence of its pairs. "
    "The sets count as independent, and nothing is said of other sets."
)
_AGGREGATED: dict[Aggregation, str] = {
    "mean": "the plain mean of the correlations of its subsets",
    "wmean": "the mean of the correlations of its subsets, weighted by their pairs",
}

_ALONE = "Fisher's z, of Spearman's coefficient with the standard error of Bonett and Wright (2000),"


@dataclass(frozen=True)
class Evaluated:
    """The evaluations of a plan, one job per training seed of a cell (encoder, evaluation), and the state of each."""

    plan: Plan
    encoders: tuple[str, ...]
    evaluations: tuple[str, ...]
    jobs: Mapping[tuple[str, str], tuple[Job, ...]]
    standing: Standing
    store: Reader
    aggregation: Aggregation = "all"
    _read: dict[tuple[str, str], tuple[Observed, ...] | None] = field(default_factory=dict, compare=False, repr=False)
    """What `_observed` has read."""

    @cached_property
    def sets(self) -> Sets:
        """What the table has of the field's seven sets."""
        done = [record for job in _jobs(self) if (record := self._complete(job)) is not None]
        return Sets(self.plan.suite.evaluations, {record.job.parts[1]: record for record in done})

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
        if not done:
            return None
        mean = over_trainings(done)
        aggregated = self.aggregation != "all" and has_subsets(self.jobs[encoder, evaluation][0])
        if aggregated or len(done) == 1:
            return mean
        whole = mean_correlation(done).model_copy(update={"sd": mean.sd})
        return _levelled(whole, [self._observed(encoder, evaluation) if name == "spearman" else None])

    def average(self, encoder: str, metric: EvaluationMetric = "sts") -> Score | None:
        """Return the mean over an encoder's evaluations with its interval; None where one is not done, or withheld."""
        scores = [self.score(encoder, label, _SCORE[metric]) for label in self.evaluations]
        there = [score for score in scores if score is not None]
        hidden = any(self.hiding(encoder, label) for label in self.evaluations)
        if len(there) < len(self.evaluations) or hidden:
            return None
        divided = self.aggregation != "all" and any(has_subsets(job) for job in _jobs(self))
        known = [None if divided else self._observed(encoder, label) for label in self.evaluations]
        return _levelled(average_of(there), known)

    def levelled(self, encoder: str, evaluation: str) -> bool:
        """Whether the interval of a cell covers differences between trainings, too."""
        return self._observed(encoder, evaluation) is not None

    def _observed(self, encoder: str, evaluation: str) -> tuple[Observed, ...] | None:
        """Return what pairs add to Spearman's coefficient, by training; None for one training, or where it is lost."""
        cell = encoder, evaluation
        if cell not in self._read:
            done = [job for job in self.jobs.get(cell, ()) if self._complete(job) is not None]
            found = ((job.seed, self.train_seed(job), vector_values(self.store, job, "sts")) for job in done)
            self._read[cell] = observed(found) if len(done) > 1 else None
        return self._read[cell]

    def number(self, encoder: str, evaluation: str, metric: EvaluationMetric) -> Number | None:
        """Return the metric of a cell as a table entry, or None where there is none yet."""
        score = self.score(encoder, evaluation, _SCORE[metric])
        if score is None:
            return None
        draws, partial = self.draws(encoder, evaluation, _SCORE[metric]), self._partial(encoder, evaluation, metric)
        number = Number.of(score, MEANING[metric], draws=draws, partial=partial)
        return self.flags.on(number, self.jobs.get((encoder, evaluation), ()))

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
        """Return one of the scores of a job, its subsets aggregated as the table asks; None where there is none yet."""
        record = self._complete(job)
        if record is None:
            return None
        found = next((score for score in record.scores if score.name == name), None)
        if found is None:
            raise StoreError(f"the record of {record.job.name} has no {name}. Delete it, and the job runs again.")
        if self.aggregation == "all" or not has_subsets(job):
            return found
        parts = subset_scores(record, name)
        if not parts:
            return Score(name=name, value=None, n=found.n)
        return average_of(list(parts.values()), by_size=self.aggregation == "wmean")

    def _complete(self, job: Job) -> Record | None:
        record = self.standing.records.get(job.key)
        return record if record is not None and record.status == "complete" else None


def evaluated(results: Results, aggregation: Aggregation = "all") -> Evaluated:
    """Collect the evaluations of a RUN's plan. Raises StoreError where the plan has none."""
    plan = results.plan
    jobs: dict[tuple[str, str], tuple[Job, ...]] = {}
    for job in plan.jobs:
        if job.what == STS:
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
        results.store,
        aggregation,
    )


def paper(found: Evaluated, metric: EvaluationMetric) -> Table:
    """Build the layout paper: encoders in rows, evaluations in columns."""
    rows = []
    for encoder in found.encoders:
        numbers = [found.number(encoder, label, metric) for label in found.evaluations]
        rows.append([*numbers, *_average(found, encoder, numbers, metric)])
    sets = found.sets
    several = ["Avg." if sets.comparable or sets.ours_alone else f"Avg.{MARK}"] if len(found.evaluations) > 1 else []
    marked = mark_best(rows, [MEANING[metric]] * (len(found.evaluations) + len(several)))
    shown: list[tuple[Entry, ...]] = [(name, *row) for name, row in zip(found.encoders, marked, strict=True)]
    return Table(
        metric=metric,
        layout="paper",
        header=("Encoder", *(f"{one}{MARK}" if one in sets.unlike else one for one in found.evaluations), *several),
        rows=tuple(shown),
        groups=frozenset(),
        cells=(
            *(_cell(found, encoder, label, metric) for encoder, label in _cells(found)),
            *(_averaged(found, encoder, metric) for encoder in found.encoders if several),
        ),
        notes=_notes(found, metric),
        interval=_interval(found),
        flags=found.flags.listed(_jobs(found)),
        brief=(*_aggregated(found), *sets.brief()),
    )


def _average(
    found: Evaluated, encoder: str, numbers: Sequence[Number | None], metric: EvaluationMetric
) -> list[Number | None]:
    """Return the mean of a row as a list of one, with its interval; an empty list for a single column."""
    score = found.average(encoder, metric)
    if score is None:
        return average(numbers, MEANING[metric])
    return [
        one and replace(one, n=score.n, low=score.low, high=score.high) for one in average(numbers, MEANING[metric])
    ]


def _averaged(found: Evaluated, encoder: str, metric: EvaluationMetric) -> dict[str, Any]:
    """Return the average of a row for programs. `sets` names what it is the mean of, which a single cell lacks."""
    score = _plain(found.average(encoder, metric), hidden=False)
    return {"encoder": encoder, "evaluation": None, **score, "sets": " ".join(found.evaluations)}


def _levelled(score: Score, cells: Sequence[Sequence[Observed] | None]) -> Score:
    """Return a score with trainings and pairs as levels of its interval; as it is where a cell does not know them."""
    ends = limits(cells)
    return score if ends is None else score.model_copy(update={"low": ends[0], "high": ends[1]})


def _interval(found: Evaluated) -> str:
    own, several = INTERVAL, [cell for cell in _cells(found) if len(found.jobs[cell]) > 1]
    if any(found.levelled(*cell) for cell in several):
        own = levels_note(_ALONE, "pairs", cells=sum(not found.levelled(*cell) for cell in several), missing="cosines")
    return own + (_AVERAGED if len(found.evaluations) > 1 or found.aggregation != "all" else "")


def full(found: Evaluated, metric: EvaluationMetric) -> Table:
    """Build the layout full: one row per job and subset, with every correlation. In cells for programs, `value` is
    `metric`."""
    drawn = bool(found.plan.draws)
    divided = any(subset_scores(record, "spearman") for record in found.sets.records.values())
    rows: list[tuple[Entry, ...]] = []
    cells = []
    groups = set()
    for encoder, label in _cells(found):
        if rows and rows[-1][0] != encoder:
            groups.add(len(rows))
        for job in found.jobs[encoder, label]:
            hiding = found.flags.hiding([job])
            for subset, scores in _by_subset(found, job).items():
                n = next((score.n for score in scores.values() if score is not None), None)
                names: list[Entry] = [encoder, label, *([subset] if divided else [])]
                names += [training_seed(found.train_seed(job))] if drawn else []
                numbers = [
                    Number.of(s, MEANING[metric]).hidden(hiding) if s is not None else None for s in scores.values()
                ]
                rows.append((*names, n, *numbers))
                told = {name: _plain(score, bool(hiding)) for name, score in scores.items()}
                more: dict[str, Any] = {"subset": subset} if divided else {}
                more |= {"train_seed": found.train_seed(job)} if drawn else {}
                cell = {"encoder": encoder, "evaluation": label, **more, **told[_SCORE[metric]]}
                cells.append(cell | {"flags": found.flags.told([job]), "scores": told})
    seeds, subsets = ["Training seed"] if drawn else [], ["Subset"] if divided else []
    return Table(
        metric=metric,
        layout="full",
        header=("Encoder", "Evaluation", *subsets, *seeds, "n", *_SHOWN.values()),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(cells),
        notes=_notes(found, metric),
        interval=_interval(found),
        flags=found.flags.listed(_jobs(found)),
        brief=tuple(found.sets.brief()),
    )


def _by_subset(found: Evaluated, job: Job) -> dict[str, dict[str, Score | None]]:
    """Return the correlations of a job by subset, those of all pairs first."""
    rows = {"all": {name: found.score_of(job, name) for name in _SHOWN}}
    record = found.standing.records.get(job.key)
    if record is not None and record.status == "complete":
        parts = {name: subset_scores(record, name) for name in _SHOWN}
        rows |= {subset: {name: parts[name].get(subset) for name in _SHOWN} for subset in parts["spearman"]}
    return rows


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
        *_aggregated(found),
        *found.plan.suite.notes,
        f"n, the pairs of a column: {_sizes(found, metric)}.",
        *found.sets.notes(),
        *left_out(found.sets.records),
        *_undefined(found, metric),
        *_without_interval(found, metric),
        *draw_notes(found.plan, _jobs(found)),
        *_task_notes(found),
        *variants.notes(found.plan, found.flags.behind(_jobs(found))),
        *selected_steps(found.plan),
        *found.flags.notes(_jobs(found)),
        *missing("evaluations", _jobs(found), found.standing),
    )


def _jobs(found: Evaluated) -> list[Job]:
    return [job for jobs in found.jobs.values() for job in jobs]


def _aggregated(found: Evaluated) -> list[str]:
    if found.aggregation == "all":
        return []
    records = found.sets.records
    divided = {job.parts[1] for job in _jobs(found) if has_subsets(job)}
    lacking = [label for label, one in records.items() if label in divided and not subset_scores(one, "spearman")]
    said = f"Aggregation {found.aggregation}: an entry is {_AGGREGATED[found.aggregation]}, where it has any."
    remedy = "Copies with a column `subset`, in a new --out, give them"
    more = f" No value: {', '.join(lacking)}, whose records have no correlations of subsets. {remedy}."
    return [said + (more if lacking else "")]


def _undefined(found: Evaluated, metric: EvaluationMetric) -> list[str]:
    """Return a note for each job whose correlation is not defined, with the reason."""
    said = []
    for job in _jobs(found):
        score = found.score_of(job, _SCORE[metric])
        if score is not None and score.value is None and found.aggregation == "all":
            few = f"it has {score.n} pairs, and 4 are needed"
            why = few if score.n < FEWEST else "all cosines, or all gold scores, are equal"
            said.append(f"{'/'.join(job.parts)}: the correlation is not defined, because {why}.")
    return said


def _without_interval(found: Evaluated, metric: EvaluationMetric) -> list[str]:
    scores = [found.average(encoder, metric) for encoder in found.encoders] if len(found.evaluations) > 1 else []
    if not any(score is not None and score.value is not None and score.low is None for score in scores):
        return []
    return ["Some averages have no interval: only Spearman's correlation has one there, and not where it is perfect."]


def _sizes(found: Evaluated, metric: EvaluationMetric) -> str:
    sizes = {}
    for label in found.evaluations:
        scores = (found.score(encoder, label, _SCORE[metric]) for encoder in found.encoders)
        sizes[label] = next((score.n for score in scores if score is not None), None)
    return "; ".join(f"{label} {n}" for label, n in sizes.items() if n is not None) or "nothing yet"


def _task_notes(found: Evaluated) -> list[str]:
    """Return the notes in the tasks' files, for instance which encoders have seen their pairs."""
    tasks = {spec.task.name: spec.task for job in _jobs(found) if (spec := job.measuring) is not None}
    return [f"{name}: {note}" for name, task in tasks.items() for note in task.notes]
