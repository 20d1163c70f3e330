"""Semantic textual similarity: the cosine and gold score of each pair of an STS task, and their correlations.

paper   Rows are encoders, columns are evaluations and their average. The best entry of each column is bold. A column
        with a missing entry has no best, and a row with a missing entry has no average. With `train_seeds` an entry is
        the mean over the trainings of an encoder.
full    Each (encoder, evaluation), or each training seed of it, has one row with every correlation, and one for each
        subset of the evaluation.

As with attacks, the plan determines the shape and order, whatever is done. Numbers come from records. Only the interval
of several trainings needs the stored cosines, too.

Papers since SentEval print Spearman's correlation on the test pairs of STS12 to STS16, STS-B and SICK-R, and the plain
mean of the seven. This mean must not be compared with an average over other sets, or over sets with other pairs.
`StsSets` finds out which of the seven a table has, and whether with the same pairs, and marks its average.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from rbench.score import StsPairs, mean_correlation, spearman_values
from rbench.score.packed import pack_numbers, unpack_numbers
from rbench.score.sts import MIN_PAIRS
from rbench.score.subsets import MISSING_PREFIX, average_over_trainings, set_scores, subset_score_name
from rbench.score.subsets import average_correlations as average_of
from rbench.store.verify import find_unequal
from rbench.system.progress import count_steps
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, NumberReading, find_score, gather_cells, read_values_by_place, with_seed_levels
from rbench.tables.cells import MeasuredCell as Cell
from rbench.tables.draws import levels_note, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values, mean_interval
from rbench.tables.notes import differing_model_notes, selected_step_notes, unfinished_notes, variant_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import (
    NOT_COMPARABLE_MARK,
    Meaning,
    Number,
    TableEntry,
    average_entries,
    group_starts,
    mark_best,
)

# Part of the key of every STS job (config/versions.py): raising it scores all encoders on all sets anew.
VERSION = 1
USES = ("score.sts", "score.subsets", "encoders.sentence")
ROUNDING_TOLERANCE = 2e-4
"""Absolute tolerance of correlations that are computed again. Rows keep cosines and gold scores with 32 bits, so gold
scores that differ only in later digits become ties."""
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
_SHOWN_SCORES = {SCORE: "Spearman", "pearson": "Pearson"}
INTERVAL = (
    "95% intervals by Fisher's z, of Spearman's coefficient with the standard error of Bonett and Wright (2000). They "
    "cover the choice of pairs, not differences between training seeds."
)
_INTERVAL_OF_AVERAGES = (
    " Those of averages follow from the standard errors of each set or subset by the influence of its pairs. "
    "The sets count as independent, and nothing is said of other sets."
)
_AGGREGATION_DEFINITIONS: dict[Aggregation, str] = {
    "mean": "the plain mean of the correlations of its subsets",
    "wmean": "the mean of the correlations of its subsets, weighted by their pairs",
}

_INTERVAL_METHOD = "Fisher's z, of Spearman's coefficient with the standard error of Bonett and Wright (2000),"
FIELD_SETS: Mapping[str, int] = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb": 1379,
    "sickr": 4927,
}
"""The seven sets of the papers, by the name of the task, with the number of test pairs that SentEval and they score."""
SHARED_PAIRS_NOTE = (
    "Avg.: most test pairs of STS-B are also in STS12 to STS16 (887 of 1,377), but the interval takes the sets as "
    "independent. So it is some 7% too narrow."
)


def _format_spearman(spearman: Score) -> str:
    return "Spearman is not defined" if spearman.value is None else f"Spearman {spearman.value:.4f}"


def _count_absent(task: TaskSpec, split: Split, subset_names: Sequence[str]) -> dict[str, int]:
    """Count by published subset the pairs that are missing in the data; nothing if rows do not name their subsets."""
    present = Counter(subset_names)
    published = task.subsets.get(split, {}) if subset_names else {}
    return {
        f"{MISSING_PREFIX}{name}": published_pairs - present[name]
        for name, published_pairs in published.items()
        if present[name] < published_pairs
    }


def _count_unusable(dropped: Mapping[str, int], split: str) -> dict[str, int]:
    """Count the pairs that were left out when the rows were read, by reason: `left out: score outside the scale`."""
    return {
        f"left out: {reason.removeprefix(f'{split}: ')}": n
        for reason, n in dropped.items()
        if n and reason.startswith(f"{split}: ")
    }


@dataclass(frozen=True)
class StsSets:
    """The sets of a table, with a record of each that is done."""

    evaluations: Sequence[Evaluation]
    records: Mapping[str, Record]
    """By the label of the evaluation: any complete record, since all encoders are scored on the same pairs."""

    @property
    def differences(self) -> dict[str, str]:
        """What is different about the pairs of a set, by label, for those of the seven that have other pairs."""
        differences = {}
        for evaluation in self.evaluations:
            record = self.records.get(evaluation.label)
            if record is None or not _is_field_set(evaluation):
                continue
            n, published_n = record.scores[0].n, FIELD_SETS[evaluation.task]
            if n == published_n:
                continue
            absent_subsets = [
                name.removeprefix(MISSING_PREFIX) for name in record.counts if name.startswith(MISSING_PREFIX)
            ]
            without = f", without {_format_counts(absent_subsets, record)}" if absent_subsets else ""
            differences[evaluation.label] = f"{n:,} pairs{without}; the field's set has {published_n:,}"
        return differences

    @property
    def absent_sets(self) -> list[str]:
        """Those of the seven sets that the table does not have."""
        present = {evaluation.task for evaluation in self.evaluations if _is_field_set(evaluation)}
        return [name for name in FIELD_SETS if name not in present]

    @property
    def other_sets(self) -> list[str]:
        """The labels of the columns that are none of the seven sets."""
        return [evaluation.label for evaluation in self.evaluations if not _is_field_set(evaluation)]

    @property
    def comparable(self) -> bool:
        """Whether the average can be compared with those that papers print.

        A set that is not done yet does not matter, since the average then has no value.
        """
        return not (self.differences or self.absent_sets or self.other_sets)

    @property
    def has_no_field_set(self) -> bool:
        """Whether the table has none of the seven sets. Nobody takes its average for a printed one, so it needs no
        mark."""
        return len(self.other_sets) == len(self.evaluations)

    def notes(self) -> list[str]:
        """Return the notes on missing subsets and sets, and on the average."""
        note_lines = [f"{label}{NOT_COMPARABLE_MARK}: {difference}." for label, difference in self.differences.items()]
        if self.has_no_field_set or len(self.evaluations) < 2:
            return note_lines
        shared_note = [SHARED_PAIRS_NOTE] if {*self.absent_sets} <= {"sickr"} else []
        if self.comparable:
            return [*note_lines, "Avg.: the mean of the field's seven sets.", *shared_note]
        parts = [f"it lacks {', '.join(self.absent_sets)}"] if self.absent_sets else []
        parts += [f"it also has {', '.join(self.other_sets)}"] if self.other_sets else []
        parts += [f"the pairs of {', '.join(self.differences)} are others"] if self.differences else []
        return [
            *note_lines,
            f"Avg.{NOT_COMPARABLE_MARK}: comparable to no printed average of the field's seven sets: "
            f"{'; '.join(parts)}.",
            *shared_note,
        ]

    def brief(self) -> list[str]:
        """Return those of the notes that say that a column or the average is not comparable."""
        return [note for note in self.notes() if NOT_COMPARABLE_MARK in note]


def _is_field_set(evaluation: Evaluation) -> bool:
    return evaluation.split == "test" and evaluation.task in FIELD_SETS


def has_subsets(job: Job) -> bool:
    """Return whether a job evaluates a split that was published in subsets, as those of STS12 to STS16 were."""
    spec = job.measuring
    if job.what != STS or spec is None or spec.split is None:
        return False
    return bool(spec.task.subsets.get(spec.split))


def subset_scores(record: Record, name: str) -> dict[str, Score]:
    """Return the correlation `name` of each subset in a record. Where rows name no subsets there are none."""
    prefix = subset_score_name(name, "")
    return {score.name.removeprefix(prefix): score for score in record.scores if score.name.startswith(prefix)}


def describe_left_out(records: Mapping[str, Record]) -> list[str]:
    """Return a note on the pairs of each evaluation that could not be used, by reason."""
    return [
        f"{label}: {n:,} pairs {name}."
        for label, record in records.items()
        for name, n in record.counts.items()
        if name.startswith("left out: ")
    ]


def _format_counts(names: Sequence[str], record: Record) -> str:
    return ", ".join(f"{name} ({record.counts[MISSING_PREFIX + name]:,} pairs)" for name in names)


@dataclass(frozen=True)
class EvaluatedGrid(Grid[Cell]):
    """The evaluations of a plan by encoder and label, such as `stsb` or `stsb[split=validation]`."""

    aggregation: Aggregation = "all"

    @cached_property
    def sets(self) -> StsSets:
        """The sets of the table, beside the seven of the papers."""
        records = [record for cell in self.cells.values() for record in cell.records]
        return StsSets(self.plan.suite.evaluations, {record.job.parts[1]: record for record in records})

    def row(self, encoder: str) -> list[Number | None]:
        """Return the entries of an encoder; None where the plan has none, or nothing is done."""
        cells = (self.cells.get((encoder, label)) for label in self.labels)
        return [cell.number(SCORE) if cell is not None else None for cell in cells]

    def mean(self, encoder: str) -> Number | None:
        """Return the average of an encoder's row as an entry of the table, flagged or withheld as its parts are.

        It is the only entry of a row with one column, and None where an entry is missing.
        """
        entries = self.row(encoder)
        if len(entries) == 1:
            return entries[0]
        mean = average_entries(entries, ABOUT)
        score = self.average(encoder)
        if mean is None or score is None:
            return mean
        return replace(mean, n=score.n, low=score.low, high=score.high)

    def average(self, encoder: str) -> Score | None:
        """Return the average over an encoder's evaluations with its interval; None if one is not done, or withheld."""
        encoder_cells = [cell for cell in self.cells.values() if cell.encoder == encoder]
        scores = [cell.score(SCORE) for cell in encoder_cells]
        scores_done = [score for score in scores if score is not None]
        complete = bool(scores_done) and len(scores_done) == len(self.labels)
        if not complete or any(self.flags.hiding(cell.jobs) for cell in encoder_cells):
            return None
        average = average_of(scores_done)
        if not all(cell.read.levels for cell in encoder_cells):
            return average
        # Computing the interval reads the cosines of all trainings, so it is kept for the other tables.
        known_limits = self.results.limits
        key = tuple(cell.known_as(SCORE) for cell in encoder_cells)
        if key not in known_limits:
            known_limits[key] = mean_interval(
                [cell.observed(SCORE) if len(cell.done) > 1 else None for cell in encoder_cells]
            )
        return with_seed_levels(average, known_limits[key])


def collect_similarity(results: Results) -> EvaluatedGrid:
    """Return the evaluations of a RUN; without cells where its suite evaluates on no STS task."""
    if any(job.what == STS for job in results.plan.jobs):
        return collect_evaluations(results)
    return EvaluatedGrid(results, {})


def collect_evaluations(results: Results, aggregation: Aggregation = "all") -> EvaluatedGrid:
    """Collect the evaluations of a RUN's plan. Raises StoreError where the plan has none."""
    plan, suite = results.plan, results.plan.suite
    jobs = []
    for job in plan.jobs:
        if job.what != STS:
            continue
        assert job.measuring is not None
        draw, label = job.parts
        jobs.append((job, {"encoder": plan.draw(draw).encoder, "task": job.measuring.task.name, "label": label}))
    if not jobs:
        raise StoreError(
            f"{results.root} has no table of evaluations: suite {suite.name} has no STS task under `evaluate`."
        )

    def score(run: SeedRun, name: str) -> Score | None:
        return _score_of_record(run.record, name, aggregation) if run.record is not None else None

    def join_trainings(scores: Sequence[Score]) -> Score:
        return mean_correlation(scores).model_copy(update={"sd": average_over_trainings(scores).sd})

    def values(run: SeedRun, name: str) -> Values | None:
        if name != SCORE:
            return None
        return read_values_by_place(results, run.job, lambda: _pair_values(results.store.rows(run.job)))

    reading = NumberReading(ABOUT, score, join_trainings, values)
    # Rows do not name the subset of a pair, so an average over subsets has no interval with trainings as a level.
    reading_of_subsets = replace(reading, joined=average_over_trainings, levels=False)

    def build_cell(**fields: Any) -> Cell:
        is_aggregated = aggregation != "all" and has_subsets(fields["runs"][0].job)
        return Cell(**fields, read=reading_of_subsets if is_aggregated else reading)

    orders = {"encoder": suite.encoders, "label": (evaluation.label for evaluation in suite.evaluations)}
    cells, names = gather_cells(results, jobs, orders, build_cell)
    return EvaluatedGrid(results, cells, **names, aggregation=aggregation, spoken=lambda cell: [(cell.label, SCORE)])


def _pair_values(rows: Iterable[MeasuredRow]) -> Iterable[float] | None:
    """Return one value for each pair, whose mean is Spearman's correlation (`spearman_values`); None without a row."""
    row = next(iter(rows), None)
    if row is None:
        return None
    n = int(row.numbers["n"] or 0)
    return spearman_values(*(unpack_numbers(row.names[name], n) for name in ("cosines", "gold")))


def _score_of_record(record: Record, name: str, aggregation: Aggregation) -> Score:
    """Return a correlation of a job, its subsets aggregated as the table asks."""
    whole_score = find_score(record, name)
    if aggregation == "all" or not has_subsets(record.job):
        return whole_score
    scores_by_subset = subset_scores(record, name)
    if not scores_by_subset:
        return Score(name=name, value=None, n=whole_score.n)
    return average_of(list(scores_by_subset.values()), by_size=aggregation == "wmean")


def build_paper_table(evaluation_grid: EvaluatedGrid) -> Table:
    """Build the layout paper: encoders in rows, evaluations in columns."""
    sets = evaluation_grid.sets
    has_average = len(evaluation_grid.labels) > 1
    rows = [
        [*evaluation_grid.row(name), *([evaluation_grid.mean(name)] if has_average else [])]
        for name in evaluation_grid.encoders
    ]
    marked = mark_best(rows, [ABOUT] * (len(evaluation_grid.labels) + has_average))
    differing = sets.differences
    headings = [label + NOT_COMPARABLE_MARK * (label in differing) for label in evaluation_grid.labels]
    if has_average:
        headings.append("Avg." if sets.comparable or sets.has_no_field_set else f"Avg.{NOT_COMPARABLE_MARK}")
    return Table(
        metric=STS,
        header=("Encoder", *headings),
        rows=tuple((name, *row) for name, row in zip(evaluation_grid.encoders, marked, strict=True)),
        cells=(
            *(
                _names_of_cell(cell) | cell.told(SCORE) | {"flags": _flags_of(cell)}
                for cell in evaluation_grid.cells.values()
            ),
            *(_average_row(evaluation_grid, encoder) for encoder in evaluation_grid.encoders if has_average),
        ),
        notes=_build_notes(evaluation_grid),
        interval=_describe_interval(evaluation_grid),
        flags=evaluation_grid.flags.listed(evaluation_grid.jobs),
        shows=ABOUT,
        brief=(*_describe_aggregation(evaluation_grid), *sets.brief()),
    )


def _names_of_cell(cell: Cell) -> dict[str, Any]:
    return {"encoder": cell.encoder, "evaluation": cell.label}


def _flags_of(cell: Cell) -> list[str] | None:
    return cell.results.flags.told(cell.jobs)


def _average_row(evaluation_grid: EvaluatedGrid, encoder: str) -> dict[str, Any]:
    """Return the average of an encoder for programs.

    Its field `sets` names the evaluations that it is the mean of. Rows of a single evaluation do not have this field.
    """
    mean = evaluation_grid.mean(encoder)
    return {
        "encoder": encoder,
        "evaluation": None,
        **_plain_numbers(evaluation_grid.average(encoder), hidden=False),
        "flagged": mean is not None and mean.flagged,
        "sets": " ".join(evaluation_grid.labels),
    }


def _describe_interval(evaluation_grid: EvaluatedGrid) -> str:
    """Say what intervals of the table cover: of several trainings their differences, too, where cosines are stored."""
    cells_of_trainings = [cell for cell in evaluation_grid.cells.values() if len(cell.runs) > 1]
    num_without_levels = sum(not cell.has_seed_levels(SCORE) for cell in cells_of_trainings)
    if num_without_levels < len(cells_of_trainings):
        interval_text = levels_note(_INTERVAL_METHOD, "pairs", cells=num_without_levels, missing="cosines")
    else:
        interval_text = INTERVAL
    has_averages = len(evaluation_grid.labels) > 1 or evaluation_grid.aggregation != "all"
    return interval_text + (_INTERVAL_OF_AVERAGES if has_averages else "")


def build_full_table(evaluation_grid: EvaluatedGrid) -> Table:
    """Build the layout full: one row per job and subset, with every correlation. For programs `value` is Spearman's."""
    flags = evaluation_grid.flags
    has_training_seeds = bool(evaluation_grid.plan.draws)
    shows_subsets = any(subset_scores(record, SCORE) for record in evaluation_grid.sets.records.values())
    rows: list[tuple[TableEntry, ...]] = []
    cells = []
    jobs = [(cell, run) for cell in evaluation_grid.cells.values() for run in cell.runs]
    for cell, run in jobs:
        seed_cell = cell.only(run)
        hidden = bool(flags.hiding(run.jobs))
        for subset, scores in _scores_by_subset(seed_cell).items():
            names: list[TableEntry] = [cell.encoder, cell.label]
            extra_fields: dict[str, Any] = {}
            if shows_subsets:
                names.append(subset)
                extra_fields["subset"] = subset
            if has_training_seeds:
                names.append(training_seed(run.train_seed))
                extra_fields["train_seed"] = run.train_seed
            num_pairs = next((score.n for score in scores.values() if score is not None), None)
            numbers = [
                flags.on(Number.of(score, ABOUT), run.jobs) if score is not None else None for score in scores.values()
            ]
            rows.append((*names, num_pairs, *numbers))
            plain_scores = {name: _plain_numbers(score, hidden) for name, score in scores.items()}
            cells.append(
                {
                    **_names_of_cell(cell),
                    **extra_fields,
                    **plain_scores[SCORE],
                    "flags": _flags_of(seed_cell),
                    "scores": plain_scores,
                }
            )
    header = ["Encoder", "Evaluation"]
    if shows_subsets:
        header.append("Subset")
    if has_training_seeds:
        header.append("Training seed")
    return Table(
        metric=STS,
        layout="full",
        header=(*header, "n", *_SHOWN_SCORES.values()),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(cells),
        notes=_build_notes(evaluation_grid),
        interval=_describe_interval(evaluation_grid),
        flags=evaluation_grid.flags.listed(evaluation_grid.jobs),
        shows=ABOUT,
        caption="Every evaluation; correlations ×100",
        brief=tuple(evaluation_grid.sets.brief()),
    )


def _scores_by_subset(seed_cell: Cell) -> dict[str, dict[str, Score | None]]:
    """Return the correlations of one seed by subset, those of all pairs first."""
    rows = {"all": {name: seed_cell.score(name) for name in _SHOWN_SCORES}}
    for record in seed_cell.records:
        parts = {name: subset_scores(record, name) for name in _SHOWN_SCORES}
        rows |= {subset: {name: parts[name].get(subset) for name in _SHOWN_SCORES} for subset in parts[SCORE]}
    return rows


def _plain_numbers(score: Score | None, hidden: bool) -> dict[str, Any]:
    """Return a score for programs. Where it is hidden (the suite withholds flagged entries) only n is left."""
    fields = (score or Score(name="", value=None, n=0)).model_dump(include={"value", "n", "low", "high"})
    if hidden:
        fields |= {"value": None, "low": None, "high": None}
    return fields


def _build_notes(evaluation_grid: EvaluatedGrid) -> tuple[str, ...]:
    """Return the notes below the table. They hold neither times nor paths, as those of `rbench.tables.notes`."""
    tasks = {spec.task.name: spec.task for job in evaluation_grid.jobs if (spec := job.measuring) is not None}
    return (
        f"{ABOUT.title}: {ABOUT.definition}; the encoders are not fine-tuned.",
        *_describe_aggregation(evaluation_grid),
        *evaluation_grid.plan.suite.notes,
        f"n, the pairs of a column: {_format_sizes(evaluation_grid)}.",
        *evaluation_grid.sets.notes(),
        *describe_left_out(evaluation_grid.sets.records),
        *_describe_undefined(evaluation_grid),
        *_describe_no_interval(evaluation_grid),
        *draw_notes(evaluation_grid.plan, evaluation_grid.jobs),
        *(f"{name}: {note}" for name, task in tasks.items() for note in task.notes),
        *variant_notes(evaluation_grid.plan, evaluation_grid.flags.jobs_behind(evaluation_grid.jobs)),
        *selected_step_notes(evaluation_grid.plan),
        *differing_model_notes(evaluation_grid.plan),
        *evaluation_grid.flags.notes(evaluation_grid.jobs),
        *unfinished_notes("evaluations", evaluation_grid.jobs, evaluation_grid.standing),
    )


def _describe_aggregation(evaluation_grid: EvaluatedGrid) -> list[str]:
    if evaluation_grid.aggregation == "all":
        return []
    records = evaluation_grid.sets.records
    lacking = [
        label for label, record in records.items() if has_subsets(record.job) and not subset_scores(record, SCORE)
    ]
    definition = _AGGREGATION_DEFINITIONS[evaluation_grid.aggregation]
    first_sentence = f"Aggregation {evaluation_grid.aggregation}: an entry is {definition}, where it has any."
    remedy = "Copies with a column `subset`, in a new --out, give them"
    lacking_note = f" No value: {', '.join(lacking)}, whose records have no correlations of subsets. {remedy}."
    return [first_sentence + (lacking_note if lacking else "")]


def _describe_undefined(evaluation_grid: EvaluatedGrid) -> Iterator[str]:
    """Yield a note for each job whose correlation is not defined, with the reason."""
    if evaluation_grid.aggregation != "all":
        return  # a missing value is then that of a subset, or of a record without subsets
    for cell in evaluation_grid.cells.values():
        for run, score in cell.scores(SCORE):
            if score.value is not None:
                continue
            if score.n < MIN_PAIRS:
                reason = f"it has {score.n} pairs, and 4 are needed"
            else:
                reason = "all cosines, or all gold scores, are equal"
            yield f"{'/'.join(run.job.parts)}: the correlation is not defined, because {reason}."


def _describe_no_interval(evaluation_grid: EvaluatedGrid) -> list[str]:
    if len(evaluation_grid.labels) < 2:  # there are no averages
        return []
    scores = [evaluation_grid.average(encoder) for encoder in evaluation_grid.encoders]
    if not any(score is not None and score.value is not None and score.low is None for score in scores):
        return []
    return ["Some averages have no interval: only Spearman's correlation has one there, and not where it is perfect."]


def _format_sizes(evaluation_grid: EvaluatedGrid) -> str:
    sizes = {}
    for label in evaluation_grid.labels:
        scores = (cell.score(SCORE) for cell in evaluation_grid.cells.values() if cell.label == label)
        sizes[label] = next((score.n for score in scores if score is not None), None)
    return "; ".join(f"{label} {n}" for label, n in sizes.items() if n is not None) or "nothing yet"


class StsCorrelation(Measure[EvaluationOptions]):
    """Semantic textual similarity: the cosine and gold score of each pair of an STS task, and their correlations."""

    title = "Similarity: correlation of cosines with human scores of sentence pairs"
    reads = "encoders"
    unscaled = True
    numbers = {"sts": ABOUT}
    required_scores = ("spearman", "pearson")
    workload = "to evaluate: {:,} pairs"
    layouts = {
        "paper": lambda results, spec: build_paper_table(collect_evaluations(results, spec.aggregation)),
        "full": lambda results, spec: build_full_table(collect_evaluations(results, spec.aggregation)),
    }

    def run(self, options: EvaluationOptions, context: EncoderContext) -> Measured:
        """Score an encoder on sentence pairs. The row has the cosine and gold score of each pair."""
        import numpy as np

        assert context.data is not None and context.remembered is not None
        data = context.data
        vectors = context.remembered
        examples = data.split(options.split)
        pairs = StsPairs.of(examples)
        total = len(pairs.texts)
        progress = count_steps(context.progress, total)
        similarities = pairs.similarities(
            lambda texts: vectors.encode(texts, "fastest", progress), vectors.encoder.settings.similarity
        )
        # Scores are computed from the rounded numbers that are stored, so that `rbench verify` finds the same scores.
        # This matters for untrained encoders: their cosines differ only in digits that are rounded away.
        cosines = np.asarray(similarities, dtype=np.float32)
        gold = np.asarray(pairs.gold, dtype=np.float32)
        subset = data.subsets.get(options.split, {})
        subset_names = [subset[example.id] for example in examples] if subset else []
        scores = set_scores(cosines, gold, subset_names)
        context.progress(total, total, f"{_format_spearman(scores[0])}, {len(pairs)} pairs")
        series = {"cosines": pack_numbers(cosines), "gold": pack_numbers(gold)}
        counts = _count_absent(context.task, options.split, subset_names) | _count_unusable(data.dropped, options.split)
        return Measured([MeasuredRow(names=series, numbers={"n": len(pairs)})], scores, {"n": len(pairs)} | counts)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many pairs a job scores."""
        return int(prepared.data[job.spec.task.name].sizes[job.spec.split])

    def unlike(self, record: Record, lines: Sequence[MeasuredRow]) -> Iterator[str]:
        """Compute the correlations of all pairs again, and compare them with the record's.

        Those of subsets cannot be computed, because rows do not name the subset of a pair. It is only checked that the
        numbers of their pairs add up.
        """
        (row,) = lines
        num_pairs = int(row.numbers["n"] or 0)
        cosines, gold = (unpack_numbers(row.names[name], num_pairs).tolist() for name in ("cosines", "gold"))
        all_pair_scores = set_scores(cosines, gold, ())
        stored_subset_scores: list[Score] = []
        problems = []
        for score in all_pair_scores:
            scores_by_subset = subset_scores(record, score.name)
            stored_subset_scores += scores_by_subset.values()
            subset_pairs = sum(subset_score.n for subset_score in scores_by_subset.values())
            if scores_by_subset and subset_pairs != num_pairs:
                problems.append(f"the subsets of {score.name} have {subset_pairs} pairs, but there are {num_pairs}.")
        # `find_unequal` expects all scores of the record, so those of subsets are passed on as they are stored.
        recomputed = (*all_pair_scores, *stored_subset_scores)
        yield from find_unequal(record, recomputed, {"n": num_pairs}, absolute=ROUNDING_TOLERANCE)
        yield from problems

    def cells(self, results: Results) -> EvaluatedGrid:
        return collect_evaluations(results)
