"""Alignment and uniformity of an encoder's vectors (RobustSentEmbed, equations 11 and 12, Figure 3).

Alignment is the mean squared distance of the vectors of two texts that mean the same: pairs of STS-B scored 4 or more.
Uniformity is the logarithm of the mean of exp(-2 d^2) over pairs of different texts, d their distance: all distinct
texts of STS-B. Vectors have length 1. Low is good for both. The papers do not name the split; SimCSE's authors say that
they take the whole of STS-B, so that is the default here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import EncoderGrid, EncoderRow, collect_by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Score, Split, Strict, TaskSpec
from rbench.score.statistics import Sample
from rbench.tables import Results, Table
from rbench.tables.table import Meaning, TableEntry, mark_best_of_column

# Part of the key of every alignment job (config/versions.py): raising it computes them anew.
VERSION = 1
USES = ("encoders.sentence",)
NAME = "alignment"
ABOUT = Meaning(
    "Alignment and uniformity",
    "mean squared distance of pairs that mean the same, and logarithm of the mean of exp(-2 d^2) over pairs of "
    "different texts",
    "lowest",
    percent=False,
    digits=3,
    undefined="no pair with such a score, or fewer than two texts",
    good="better",
    among="of each column",
)
METRICS = {
    "alignment": replace(ABOUT, title="Alignment"),
    "uniformity": replace(ABOUT, title="Uniformity"),
}
Array = NDArray[np.float64]
BLOCK = 1024
"""Rows of the matrix of all pairs that are in memory at once."""


class Options(Strict):
    """Which pairs."""

    task: str = "stsb"
    """A task with similarity scores."""
    splits: tuple[Split, ...] = ("train", "validation", "test")
    """The splits whose pairs are joined."""
    positive: float = 4.0
    """Pairs with this score or more mean the same."""


class AlignmentUniformity(Measure[Options]):
    """Alignment and uniformity of an encoder's vectors (RobustSentEmbed, equations 11 and 12, Figure 3)."""

    title = "Alignment and uniformity of sentence vectors (RobustSentEmbed, Figure 3)"
    reads = "encoders"
    numbers = METRICS
    options_by_task = ("task",)

    def tasks(self, options: Options) -> dict[str, Options]:
        """Return the task to load."""
        return {options.task: options}

    def splits(self, options: Options, task: TaskSpec) -> tuple[str, ...]:
        """Return the splits to read. Raises ValueError for a task without scores, or a bound outside of its scale."""
        if not task.of_kind.has_scores:
            raise ValueError(f"task {task.name} has no similarity scores (its kind is {task.kind})")
        if task.scale is not None and not task.scale[0] <= options.positive <= task.scale[1]:
            low, high = task.scale
            raise ValueError(
                f"`positive` is {options.positive:g}, and the scores of {task.name} go from {low:g} to {high:g}"
            )
        return options.splits

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
        """Return one row. Texts whose vector is 0 have no direction: they are left out, with their pairs."""
        rows = [pair for split in options.splits for pair in context.rows(split)]
        texts = [text for pair in rows for text in pair.texts]
        first_text_place: dict[str, int] = {}
        for i, text in enumerate(texts):
            first_text_place.setdefault(text, i)  # a text belongs to the first pair that it is in
        unit_vectors = to_unit_sphere(context.vectors(list(first_text_place)))
        vector_place = {text: i for i, text in enumerate(first_text_place)}
        first, second = (unit_vectors[[vector_place[pair.texts[side]] for pair in rows]] for side in (0, 1))
        has_directions = np.isfinite(first).all(1) & np.isfinite(second).all(1)
        is_positive = has_directions & np.array([float(pair.label or 0) >= options.positive for pair in rows])
        has_direction = np.isfinite(unit_vectors).all(1)
        numbers: dict[str, float | None] = {
            "pairs": int(is_positive.sum()),
            "texts": int(has_direction.sum()),
            "without_direction": int((~has_direction).sum()),
        }
        clusters = np.array([i // 2 for i in first_text_place.values()])[has_direction]
        for name, pair in (
            ("alignment", compute_alignment(first[is_positive], second[is_positive])),
            ("uniformity", compute_uniformity(unit_vectors[has_direction], clusters)),
        ):
            numbers |= {name: pair.value, f"{name}_low": pair.low, f"{name}_high": pair.high}
        return [MeasuredRow(names={}, numbers=numbers)]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each task and encoder."""
        found = build_cells(results, options if options.model_fields_set else None, planned=False)
        shown = [(task, row) for task in found.tasks for row in found.rows]
        columns = [[found.number(row, task, name) for task, row in shown] for name in METRICS]
        if len(found.tasks) == 1:  # numbers of different tasks do not compete
            columns = [mark_best_of_column(column, "lowest") for column in columns]
        rows: list[tuple[TableEntry, ...]] = []
        for i, (task, row) in enumerate(shown):
            low, high = columns[0][i], columns[1][i]
            sizes = (low.n if low is not None else None, high.n if high is not None else None)
            rows.append((task, *found.names(row), sizes[0], low, sizes[1], high))
        return Table(
            metric=NAME,
            header=("Task", *found.named, "Pairs", "Alignment", "Texts", "Uniformity"),
            rows=tuple(rows),
            cells=tuple(_program_row(found, row, task) for task, row in shown if found.of(row, task)),
            notes=(
                f"Vectors have length 1. Pairs: those with a score of at least {_format_bounds(found)}; texts: all "
                "distinct ones, each once. Low is good for both, and each alone is no quality: an encoder that maps "
                "all texts to one vector has alignment 0 and uniformity 0.",
                *_describe_left_out(found),
                *found.common_notes(),
            ),
            interval=found.interval(
                "95% intervals: Student's t over pairs for alignment; for uniformity normal, of a U-statistic, the two "
                "texts of a pair drawn together."
            ),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> EncoderGrid:
        return build_cells(results)


class IntervalEstimate(NamedTuple):
    """A number and its 95% interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


def to_unit_sphere(vectors: Array) -> Array:
    """Return the vectors with length 1. A vector 0 has no direction, and its row becomes NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def compute_alignment(first: Array, second: Array) -> IntervalEstimate:
    """Return the mean squared distance of paired rows, each (pairs, dim) of length 1, with Student's t interval.

    The mean of no pairs is not defined, and one pair has no interval.
    """
    distances = Sample.of(np.square(first - second).sum(1).tolist())
    return IntervalEstimate(distances.mean, *(distances.interval() or (None, None)))


def compute_uniformity(vectors: Array, clusters: NDArray[np.int64]) -> IntervalEstimate:
    """Return the logarithm of the mean of exp(-2 d^2) over all pairs of different rows, d their distance.

    Args:
        vectors: (texts, dim), of length 1.
        clusters: for each text its cluster, for instance the pair that it comes from. Texts of one may be alike, and
            clusters are taken for independent. The interval is that of a U-statistic by its first projection.

    It is not defined for fewer than two texts, and has no interval for fewer than two clusters.
    """
    num_texts = len(vectors)
    if num_texts < 2:
        return IntervalEstimate(None)
    means = np.zeros(num_texts)
    for start in range(0, num_texts, BLOCK):
        rows = slice(start, start + BLOCK)
        kernel = np.exp(4 * (vectors[rows] @ vectors.T) - 4)  # d^2 = 2 - 2 cos
        kernel[np.arange(len(kernel)), np.arange(num_texts)[rows]] = 0
        means[rows] = kernel.sum(1) / (num_texts - 1)
    mean = float(means.mean())
    value = float(np.log(mean))
    _, cluster_index = np.unique(clusters, return_inverse=True)
    # First projection of the U-statistic: a text takes part in its pairs from either side, hence the factor 2.
    cluster_sums = np.bincount(cluster_index, weights=2 * (means - mean) / num_texts)
    if len(cluster_sums) < 2:
        return IntervalEstimate(value)
    # Delta method: the derivative of log(m) is 1 / m.
    error = float(np.sqrt(len(cluster_sums) / (len(cluster_sums) - 1) * np.square(cluster_sums).sum())) / mean
    half_width = float(ndtri(0.975)) * error
    return IntervalEstimate(value, value - half_width, value + half_width)


def build_cells(results: Results, options: Options | None = None, *, planned: bool = True) -> EncoderGrid:
    """Return the METRICS of all encoders and tasks. Raises StoreError as `by_encoder` does."""
    return collect_by_encoder(results, NAME, options, (ABOUT, _score_of_job), planned=planned)


def _score_of_job(measured_job: MeasuredJob, name: str) -> Score:
    """Return `compute_alignment` or `compute_uniformity` of a job, and how many pairs or texts it is of."""
    numbers = measured_job.rows[0].numbers
    sample_size = int(numbers["pairs" if name == "alignment" else "texts"] or 0)
    return Score(
        name=name, value=numbers[name], n=sample_size, low=numbers[f"{name}_low"], high=numbers[f"{name}_high"]
    )


def _format_bounds(encoder_grid: EncoderGrid) -> str:
    measured_jobs = (
        measured_job
        for row in encoder_grid.rows
        for task in encoder_grid.tasks
        for measured_job in encoder_grid.of(row, task)
    )
    return " or ".join(dict.fromkeys(f"{measured_job.options['positive']:g}" for measured_job in measured_jobs))


def _describe_left_out(encoder_grid: EncoderGrid) -> list[str]:
    """Say how many texts have the vector 0, for each encoder that has such texts."""
    left_out_notes = []
    for row, task in (
        (row, task) for row in encoder_grid.rows for task in encoder_grid.tasks if encoder_grid.of(row, task)
    ):
        num_without = max(
            int(measured_job.rows[0].numbers["without_direction"] or 0) for measured_job in encoder_grid.of(row, task)
        )
        left_out_notes += (
            [f"{row[0]}: {num_without} texts of {task} have the vector 0, and are left out with their pairs."]
            if num_without
            else []
        )
    return left_out_notes


def _program_row(encoder_grid: EncoderGrid, row: EncoderRow, task: str) -> dict[str, object]:
    measured_cell = encoder_grid.cells[row[1], row[0], task]
    cell: dict[str, object] = {"encoder": row[0], "task": task, "evaluation": row[1]}
    for name in METRICS:
        fields = measured_cell.told(name)
        sample_size = fields.pop("n")
        cell |= {name: fields.pop("value"), **{f"{name}_{key}": value for key, value in fields.items()}}
        cell["n" if name == "alignment" else "texts"] = sample_size
    return cell | {"flags": encoder_grid.flags.told(run.job for run in measured_cell.done)}
