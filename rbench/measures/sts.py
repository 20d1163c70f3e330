"""Semantic textual similarity: the cosine and gold score of each pair of an STS task, and their correlations.

paper   Rows are encoders, columns are evaluations and their average. The best entry of each column is bold. A column
        with a missing entry has no best, and a row with a missing entry has no average. With `train_seeds` an entry is
        the mean over the trainings of an encoder.
full    Each (encoder, evaluation), or each training seed of it, has one row with every correlation, and one for each
        subset of the evaluation.

As with attacks, the plan determines the shape and order, whatever is done. Records are read, and the cosines of several
trainings, for their intervals.

Papers since SentEval print Spearman's correlation on the test pairs of STS12 to STS16, STS-B and SICK-R, and the plain
mean of the seven. An average of other sets, or of sets with other pairs, must not be read beside those: `Sets` says
which of them a table has, with which pairs, and what that means for its average.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.measures._context import EncoderContext, Measured
from rbench.schema import (
    STS,
    Aggregation,
    Evaluation,
    EvaluationOptions,
    Job,
    MeasuredRow,
    Record,
    Score,
    Split,
    TaskSpec,
)
from rbench.score import Pairs, mean_correlation, spearman_values
from rbench.score.packed import packed_numbers, unpacked_numbers
from rbench.score.sts import FEWEST
from rbench.score.subsets import MISSING, of_subset, over_trainings, set_scores
from rbench.score.subsets import average as average_of
from rbench.store.verify import unequal
from rbench.system.progress import counting
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Reading, by_place, gathered, levelled, score_of
from rbench.tables.cells import Measured as Cell
from rbench.tables.draws import levels_note, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values, limits
from rbench.tables.notes import as_read, missing, selected_steps, variants
from rbench.tables.results import Run
from rbench.tables.table import MARK, Entry, Meaning, Number, average, groups_of, mark_best

VERSION = 1
USES = ("score.sts", "score.subsets", "encoders.sentence")
ROUNDED = 2e-4
"""Absolute tolerance of correlations that are computed again. Rows keep cosines and gold scores with 32 bits, so gold
scores that differ by less than these hold become ties."""
ABOUT = Meaning(
    "Semantic textual similarity",
    "Spearman's rank correlation of the cosines of sentence vectors with gold scores",
    "highest",
    digits=2,
    unit="×100",
    stored="Correlations are in -1..1.",
    undefined="fewer than 4 pairs, or cosines that are all equal",
    good="better",
    among="of each column",
)
SCORE = "spearman"
"""The name of the score that tables show, in a record."""
_SHOWN = {SCORE: "Spearman", "pearson": "Pearson"}
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
SEVEN: Mapping[str, int] = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb": 1379,
    "sickr": 4927,
}
"""The seven sets, by the name of the task, with the number of test pairs that SentEval and the papers score."""
SHARED = (
    "Avg.: most test pairs of STS-B are also in STS12 to STS16 (887 of 1,377), but the interval takes the sets as "
    "independent. So it is some 7% too narrow."
)


def _told(spearman: Score) -> str:
    return "Spearman is not defined" if spearman.value is None else f"Spearman {spearman.value:.4f}"


def _absent(task: TaskSpec, split: Split, of: Sequence[str]) -> dict[str, int]:
    """Count the pairs of each published subset that are not there, where rows name their subsets."""
    there = Counter(of)
    published = task.subsets.get(split, {}) if of else {}
    return {f"{MISSING}{name}": n - there[name] for name, n in published.items() if there[name] < n}


def _unusable(dropped: Mapping[str, int], split: str) -> dict[str, int]:
    """Count the pairs that were left out when the rows were read, by reason: `left out: score outside the scale`."""
    return {
        f"left out: {reason.removeprefix(f'{split}: ')}": n
        for reason, n in dropped.items()
        if n and reason.startswith(f"{split}: ")
    }


@dataclass(frozen=True)
class Sets:
    """The sets of a table, with a record of each that is done."""

    evaluations: Sequence[Evaluation]
    records: Mapping[str, Record]
    """By the label of the evaluation: any complete record, since all encoders are scored on the same pairs."""

    @property
    def unlike(self) -> dict[str, str]:
        """Return, for each of the seven sets whose pairs are not the field's, what is different about them."""
        found = {}
        for one in self.evaluations:
            record, wanted = self.records.get(one.label), SEVEN.get(one.task)
            if record is None or wanted is None or one.split != "test" or (n := record.scores[0].n) == wanted:
                continue
            gone = [name.removeprefix(MISSING) for name in record.counts if name.startswith(MISSING)]
            lacks = f", without {_counted(gone, record)}" if gone else ""
            found[one.label] = f"{n:,} pairs{lacks}; the field's set has {wanted:,}"
        return found

    @property
    def absent(self) -> list[str]:
        """Return which of the seven sets the table does not have."""
        there = {one.task for one in self.evaluations if one.split == "test"}
        return [name for name in SEVEN if name not in there]

    @property
    def others(self) -> list[str]:
        """Return the columns beside the seven sets."""
        return [one.label for one in self.evaluations if one.split != "test" or one.task not in SEVEN]

    @property
    def comparable(self) -> bool:
        """Whether the average is that of the seven sets, as far as they are done."""
        return not (self.unlike or self.absent or self.others)

    @property
    def ours_alone(self) -> bool:
        """Whether none of the seven sets is there, so that nobody would look for a printed average."""
        return len(self.others) == len(self.evaluations)

    def notes(self) -> list[str]:
        """Return the notes on missing subsets and sets, and on the average."""
        said = [f"{label}{MARK}: {what}." for label, what in self.unlike.items()]
        if self.ours_alone or len(self.evaluations) < 2:
            return said
        shared = [SHARED] if {*self.absent} <= {"sickr"} else []
        if self.comparable:
            return [*said, "Avg.: the mean of the field's seven sets.", *shared]
        parts = [f"it lacks {', '.join(self.absent)}"] if self.absent else []
        parts += [f"it also has {', '.join(self.others)}"] if self.others else []
        parts += [f"the pairs of {', '.join(self.unlike)} are others"] if self.unlike else []
        return [
            *said,
            f"Avg.{MARK}: comparable to no printed average of the field's seven sets: {'; '.join(parts)}.",
            *shared,
        ]

    def brief(self) -> list[str]:
        """Return the same in a sentence or two."""
        return [note for note in self.notes() if MARK in note]


def has_subsets(job: Job) -> bool:
    """Return whether an evaluation's split was published in subsets, as those of STS12 to STS16 were."""
    spec = job.measuring
    return job.what == STS and spec is not None and spec.split is not None and bool(spec.task.subsets.get(spec.split))


def subset_scores(record: Record, name: str) -> dict[str, Score]:
    """Return a correlation of each subset that is there. There is none where rows name no subsets."""
    prefix = of_subset(name, "")
    return {one.name.removeprefix(prefix): one for one in record.scores if one.name.startswith(prefix)}


def left_out(records: Mapping[str, Record]) -> list[str]:
    """Return a note on the pairs of each evaluation that could not be used, by reason."""
    return [
        f"{label}: {n:,} pairs {name}."
        for label, record in records.items()
        for name, n in record.counts.items()
        if name.startswith("left out: ")
    ]


def _counted(names: Sequence[str], record: Record) -> str:
    return ", ".join(f"{name} ({record.counts[MISSING + name]:,} pairs)" for name in names)


@dataclass(frozen=True)
class Evaluated(Grid[Cell]):
    """The evaluations of a plan by encoder and label, such as `stsb` or `stsb[split=validation]`."""

    aggregation: Aggregation = "all"

    @cached_property
    def sets(self) -> Sets:
        """What the table has of the field's seven sets."""
        done = [record for cell in self.cells.values() for record in cell.records]
        return Sets(self.plan.suite.evaluations, {record.job.parts[1]: record for record in done})

    def row(self, encoder: str) -> list[Number | None]:
        """Return the entries of an encoder; None where the plan has none, or nothing is done."""
        cells = (self.cells.get((encoder, label)) for label in self.labels)
        return [cell.number(SCORE) if cell is not None else None for cell in cells]

    def mean(self, encoder: str) -> Number | None:
        """Return the mean of a row with its interval, or its only entry."""
        entries, score = self.row(encoder), self.average(encoder)
        if len(entries) == 1:
            return entries[0]
        mean = average(entries, ABOUT)
        return mean and (mean if score is None else replace(mean, n=score.n, low=score.low, high=score.high))

    def average(self, encoder: str) -> Score | None:
        """Return the mean over an encoder's evaluations with its interval; None where one is not done, or withheld."""
        own = [cell for cell in self.cells.values() if cell.encoder == encoder]
        scores = [score for cell in own if (score := cell.score(SCORE)) is not None]
        if len(scores) < len(self.labels) or any(self.flags.hiding(cell.jobs) for cell in own):
            return None
        if not all(cell.read.levels for cell in own):
            return average_of(scores)
        known, key = self.results.limits, tuple(cell.known_as(SCORE) for cell in own)
        if key not in known:
            known[key] = limits([cell.observed(SCORE) if len(cell.done) > 1 else None for cell in own])
        return levelled(average_of(scores), known[key])


def similarity(results: Results) -> Evaluated:
    """Return the evaluations of a RUN; without cells where its suite evaluates on no STS task."""
    return evaluated(results) if any(job.what == STS for job in results.plan.jobs) else Evaluated(results, {})


def evaluated(results: Results, aggregation: Aggregation = "all") -> Evaluated:
    """Collect the evaluations of a RUN's plan. Raises StoreError where the plan has none."""
    plan, suite = results.plan, results.plan.suite
    jobs = []
    for job in (job for job in plan.jobs if job.what == STS):
        assert job.measuring is not None
        draw, label = job.parts
        jobs.append((job, {"encoder": plan.draw(draw).encoder, "task": job.measuring.task.name, "label": label}))
    if not jobs:
        raise StoreError(
            f"{results.root} has no table of evaluations: suite {suite.name} has no STS task under `evaluate`."
        )

    def score(run: Run, name: str) -> Score | None:
        return _score(run.record, name, aggregation) if run.record is not None else None

    def joined(scores: Sequence[Score]) -> Score:
        return mean_correlation(scores).model_copy(update={"sd": over_trainings(scores).sd})

    def values(run: Run, name: str) -> Values | None:
        return by_place(results, run.job, lambda: _values(results.store.rows(run.job))) if name == SCORE else None

    divided = aggregation != "all"
    whole = Reading(ABOUT, score, joined, values)
    reads = {True: replace(whole, joined=over_trainings, levels=False), False: whole}

    def made(**fields: Any) -> Cell:
        return Cell(**fields, read=reads[divided and has_subsets(fields["runs"][0].job)])

    orders = {"encoder": suite.encoders, "label": (evaluation.label for evaluation in suite.evaluations)}
    cells, names = gathered(results, jobs, orders, made)
    return Evaluated(results, cells, **names, aggregation=aggregation, spoken=lambda cell: [(cell.label, SCORE)])


def _values(rows: Iterable[MeasuredRow]) -> Iterable[float] | None:
    """Return the values of the pairs of a job, of which Spearman's correlation is the mean; None where it has none."""
    if (row := next(iter(rows), None)) is None:
        return None
    n = int(row.numbers["n"] or 0)
    return spearman_values(*(unpacked_numbers(row.names[name], n) for name in ("cosines", "gold")))


def _score(record: Record, name: str, aggregation: Aggregation) -> Score:
    """Return a correlation of a job, its subsets aggregated as the table asks."""
    found = score_of(record, name)
    if aggregation == "all" or not has_subsets(record.job):
        return found
    if not (parts := subset_scores(record, name)):
        return Score(name=name, value=None, n=found.n)
    return average_of(list(parts.values()), by_size=aggregation == "wmean")


def paper(found: Evaluated) -> Table:
    """Build the layout paper: encoders in rows, evaluations in columns."""
    sets, several = found.sets, len(found.labels) > 1
    rows = [[*found.row(name), *([found.mean(name)] if several else [])] for name in found.encoders]
    marked = mark_best(rows, [ABOUT] * (len(found.labels) + several))
    mean = ["Avg." if sets.comparable or sets.ours_alone else f"Avg.{MARK}"] if several else []
    return Table(
        metric=STS,
        header=("Encoder", *(f"{one}{MARK}" if one in sets.unlike else one for one in found.labels), *mean),
        rows=tuple((name, *row) for name, row in zip(found.encoders, marked, strict=True)),
        cells=(
            *(_named(cell) | cell.told(SCORE) | {"flags": _flags(cell)} for cell in found.cells.values()),
            *(_averaged(found, encoder) for encoder in found.encoders if several),
        ),
        notes=_notes(found),
        interval=_interval(found),
        flags=found.flags.listed(found.jobs),
        shows=ABOUT,
        brief=(*_aggregated(found), *sets.brief()),
    )


def _named(cell: Cell) -> dict[str, Any]:
    return {"encoder": cell.encoder, "evaluation": cell.label}


def _flags(cell: Cell) -> list[str] | None:
    return cell.results.flags.told(cell.jobs)


def _averaged(found: Evaluated, encoder: str) -> dict[str, Any]:
    """Return the average of a row for programs. `sets` names what it is the mean of, which a single cell lacks."""
    score, mean = _plain(found.average(encoder), hidden=False), found.mean(encoder)
    flagged = mean is not None and mean.flagged
    return {"encoder": encoder, "evaluation": None, **score, "flagged": flagged, "sets": " ".join(found.labels)}


def _interval(found: Evaluated) -> str:
    own, several = INTERVAL, [cell for cell in found.cells.values() if len(cell.runs) > 1]
    if (bare := sum(not cell.levelled(SCORE) for cell in several)) < len(several):
        own = levels_note(_ALONE, "pairs", cells=bare, missing="cosines")
    return own + (_AVERAGED if len(found.labels) > 1 or found.aggregation != "all" else "")


def full(found: Evaluated) -> Table:
    """Build the layout full: one row per job and subset, with every correlation. For programs `value` is Spearman's."""
    drawn = bool(found.plan.draws)
    divided = any(subset_scores(record, SCORE) for record in found.sets.records.values())
    rows: list[tuple[Entry, ...]] = []
    cells = []
    for cell, run in ((of, run) for of in found.cells.values() for run in of.runs):
        seed, hidden = cell.only(run), bool(found.flags.hiding(run.jobs))
        for subset, scores in _by_subset(seed).items():
            n = next((score.n for score in scores.values() if score is not None), None)
            names: list[Entry] = [cell.encoder, cell.label, *([subset] if divided else [])]
            names += [training_seed(run.train_seed)] if drawn else []
            numbers = [
                found.flags.on(Number.of(one, ABOUT), run.jobs) if one is not None else None for one in scores.values()
            ]
            rows.append((*names, n, *numbers))
            told = {name: _plain(score, hidden) for name, score in scores.items()}
            more: dict[str, Any] = {"subset": subset} if divided else {}
            more |= {"train_seed": run.train_seed} if drawn else {}
            cells.append({**_named(cell), **more, **told[SCORE], "flags": _flags(seed), "scores": told})
    seeds, subsets = ["Training seed"] if drawn else [], ["Subset"] if divided else []
    return Table(
        metric=STS,
        layout="full",
        header=("Encoder", "Evaluation", *subsets, *seeds, "n", *_SHOWN.values()),
        rows=tuple(rows),
        groups=groups_of(rows),
        cells=tuple(cells),
        notes=_notes(found),
        interval=_interval(found),
        flags=found.flags.listed(found.jobs),
        shows=ABOUT,
        caption="Every evaluation; correlations ×100",
        brief=tuple(found.sets.brief()),
    )


def _by_subset(one: Cell) -> dict[str, dict[str, Score | None]]:
    """Return the correlations of one seed by subset, those of all pairs first."""
    rows = {"all": {name: one.score(name) for name in _SHOWN}}
    for record in one.records:
        parts = {name: subset_scores(record, name) for name in _SHOWN}
        rows |= {subset: {name: parts[name].get(subset) for name in _SHOWN} for subset in parts[SCORE]}
    return rows


def _plain(score: Score | None, hidden: bool) -> dict[str, Any]:
    plain = (score or Score(name="", value=None, n=0)).model_dump(include={"value", "n", "low", "high"})
    return plain | dict.fromkeys(("value", "low", "high")) if hidden else plain


def _notes(found: Evaluated) -> tuple[str, ...]:
    """Return the notes below the table. As in `notes`, they hold neither times nor paths."""
    tasks = {spec.task.name: spec.task for job in found.jobs if (spec := job.measuring) is not None}
    return (
        f"{ABOUT.title}: {ABOUT.definition}; the encoders are not fine-tuned.",
        *_aggregated(found),
        *found.plan.suite.notes,
        f"n, the pairs of a column: {_sizes(found)}.",
        *found.sets.notes(),
        *left_out(found.sets.records),
        *_undefined(found),
        *_without_interval(found),
        *draw_notes(found.plan, found.jobs),
        *(f"{name}: {note}" for name, task in tasks.items() for note in task.notes),
        *variants(found.plan, found.flags.behind(found.jobs)),
        *selected_steps(found.plan),
        *as_read(found.plan),
        *found.flags.notes(found.jobs),
        *missing("evaluations", found.jobs, found.standing),
    )


def _aggregated(found: Evaluated) -> list[str]:
    if found.aggregation == "all":
        return []
    records = found.sets.records
    lacking = [label for label, one in records.items() if has_subsets(one.job) and not subset_scores(one, SCORE)]
    said = f"Aggregation {found.aggregation}: an entry is {_AGGREGATED[found.aggregation]}, where it has any."
    remedy = "Copies with a column `subset`, in a new --out, give them"
    more = f" No value: {', '.join(lacking)}, whose records have no correlations of subsets. {remedy}."
    return [said + (more if lacking else "")]


def _undefined(found: Evaluated) -> Iterator[str]:
    """Yield a note for each job whose correlation is not defined, with the reason."""
    scored = [one for cell in found.cells.values() for one in cell.scores(SCORE)] if found.aggregation == "all" else []
    for run, score in scored:
        if score.value is None:
            few = f"it has {score.n} pairs, and 4 are needed"
            why = few if score.n < FEWEST else "all cosines, or all gold scores, are equal"
            yield f"{'/'.join(run.job.parts)}: the correlation is not defined, because {why}."


def _without_interval(found: Evaluated) -> list[str]:
    scores = [found.average(encoder) for encoder in found.encoders] if len(found.labels) > 1 else []
    if not any(score is not None and score.value is not None and score.low is None for score in scores):
        return []
    return ["Some averages have no interval: only Spearman's correlation has one there, and not where it is perfect."]


def _sizes(found: Evaluated) -> str:
    sizes = {}
    for label in found.labels:
        scores = (cell.score(SCORE) for cell in found.cells.values() if cell.label == label)
        sizes[label] = next((score.n for score in scores if score is not None), None)
    return "; ".join(f"{label} {n}" for label, n in sizes.items() if n is not None) or "nothing yet"


class Sts(Measure[EvaluationOptions]):
    """Semantic textual similarity: the cosine and gold score of each pair of an STS task, and their correlations."""

    title = "Similarity: correlation of cosines with human scores of sentence pairs"
    reads = "encoders"
    unscaled = True
    numbers = {"sts": ABOUT}
    required_scores = ("spearman", "pearson")
    workload = "to evaluate: {:,} pairs"
    layouts = {
        "paper": lambda results, wanted: paper(evaluated(results, wanted.aggregation)),
        "full": lambda results, wanted: full(evaluated(results, wanted.aggregation)),
    }

    def run(self, options: EvaluationOptions, context: EncoderContext) -> Measured:
        """Score an encoder on sentence pairs. The row has the cosine and gold score of each pair."""
        import numpy as np

        assert context.data is not None and context.remembered is not None
        data, vectors = context.data, context.remembered
        examples = data.split(options.split)
        pairs = Pairs.of(examples)
        total = len(pairs.texts)
        encoded = counting(context.progress, total)
        # The scores are those of the numbers that are stored: of untrained encoders, cosines differ in later digits
        # alone.
        likeness = pairs.similarities(
            lambda texts: vectors.encode(texts, "fastest", encoded), vectors.encoder.settings.similarity
        )
        found = np.asarray(likeness, dtype=np.float32)
        gold = np.asarray(pairs.gold, dtype=np.float32)
        subset = data.subsets.get(options.split, {})
        of = [subset[example.id] for example in examples] if subset else []
        scores = set_scores(found, gold, of)
        context.progress(total, total, f"{_told(scores[0])}, {len(pairs)} pairs")
        series = {"cosines": packed_numbers(found), "gold": packed_numbers(gold)}
        counts = _absent(context.task, options.split, of) | _unusable(data.dropped, options.split)
        return Measured([MeasuredRow(names=series, numbers={"n": len(pairs)})], scores, {"n": len(pairs)} | counts)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many pairs a job scores."""
        return int(prepared.data[job.spec.task.name].sizes[job.spec.split])

    def unlike(self, record: Record, lines: Sequence[MeasuredRow]) -> Iterator[str]:
        """Compare the correlations of all pairs. Rows do not say of which subset a pair is: of subsets only their n."""
        (row,) = lines
        n = int(row.numbers["n"] or 0)
        cosines, gold = (unpacked_numbers(row.names[name], n).tolist() for name in ("cosines", "gold"))
        whole = set_scores(cosines, gold, ())
        subsets = {one.name: [s for s in record.scores if s.name.startswith(f"{one.name}:")] for one in whole}
        yield from unequal(record, (*whole, *chain(*subsets.values())), {"n": n}, absolute=ROUNDED)
        for name, found in subsets.items():
            if found and (pairs := sum(one.n for one in found)) != n:
                yield f"the subsets of {name} have {pairs} pairs, but there are {n}."

    def cells(self, results: Results) -> Evaluated:
        return evaluated(results)
