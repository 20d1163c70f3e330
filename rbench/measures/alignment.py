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
from rbench.measures._by_encoder import ByEncoder, Row, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Score, Split, Strict, TaskSpec
from rbench.score.statistics import Sample
from rbench.tables import Results, Table
from rbench.tables.table import Entry, Meaning, best_of

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


class Alignment(Measure[Options]):
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
        if not options.splits:
            raise ValueError("`splits` names no split; leave it out for all of them")
        if task.scale is not None and not task.scale[0] <= options.positive <= task.scale[1]:
            low, high = task.scale
            raise ValueError(
                f"`positive` is {options.positive:g}, and the scores of {task.name} go from {low:g} to {high:g}"
            )
        return options.splits

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
        """Return one row. Texts whose vector is 0 have no direction: they are left out, with their pairs."""
        rows = [one for split in options.splits for one in context.rows(split)]
        texts = [text for one in rows for text in one.texts]
        at: dict[str, int] = {}
        for i, text in enumerate(texts):
            at.setdefault(text, i)  # a text belongs to the first pair that it is in
        found = on_sphere(context.vectors(list(at)))
        place = {text: i for i, text in enumerate(at)}
        first, second = (found[[place[one.texts[side]] for one in rows]] for side in (0, 1))
        whole = np.isfinite(first).all(1) & np.isfinite(second).all(1)
        close = whole & np.array([float(one.label or 0) >= options.positive for one in rows])
        directed = np.isfinite(found).all(1)
        numbers: dict[str, float | None] = {
            "pairs": int(close.sum()),
            "texts": int(directed.sum()),
            "without_direction": int((~directed).sum()),
        }
        clusters = np.array([i // 2 for i in at.values()])[directed]
        for name, one in (
            ("alignment", alignment(first[close], second[close])),
            ("uniformity", uniformity(found[directed], clusters)),
        ):
            numbers |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
        return [MeasuredRow(names={}, numbers=numbers)]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each task and encoder."""
        found = cells(results, options if options.model_fields_set else None, planned=False)
        shown = [(task, row) for task in found.tasks for row in found.rows]
        columns = [[found.number(row, task, name) for task, row in shown] for name in METRICS]
        if len(found.tasks) == 1:  # numbers of different tasks do not compete
            columns = [best_of(column, "lowest") for column in columns]
        rows: list[tuple[Entry, ...]] = []
        for i, (task, row) in enumerate(shown):
            low, high = columns[0][i], columns[1][i]
            sizes = (low.n if low is not None else None, high.n if high is not None else None)
            rows.append((task, *found.names(row), sizes[0], low, sizes[1], high))
        return Table(
            metric=NAME,
            header=("Task", *found.named, "Pairs", "Alignment", "Texts", "Uniformity"),
            rows=tuple(rows),
            cells=tuple(_cell(found, row, task) for task, row in shown if found.of(row, task)),
            notes=(
                "Vectors have length 1. Pairs: those with a score of at least "
                f"{_bounds(found)}; texts: all distinct ones, each once. Low is good for both, and each alone is no "
                "quality: an encoder that maps all texts to one vector has alignment 0 and uniformity 0.",
                *_left_out(found),
                *found.common_notes(),
            ),
            interval=found.interval(
                "95% intervals: Student's t over pairs for alignment; for uniformity normal, of a U-statistic, the two "
                "texts of a pair drawn together."
            ),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> ByEncoder:
        return cells(results)


class Found(NamedTuple):
    """A number and its 95% interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


def on_sphere(vectors: Array) -> Array:
    """Return the vectors with length 1. A vector 0 has no direction, and its row becomes NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def alignment(first: Array, second: Array) -> Found:
    """Return the mean squared distance of paired rows, each (pairs, dim) of length 1, with Student's t interval.

    The mean of no pairs is not defined, and one pair has no interval.
    """
    distances = Sample.of(np.square(first - second).sum(1).tolist())
    return Found(distances.mean, *(distances.interval() or (None, None)))


def uniformity(vectors: Array, clusters: NDArray[np.int64]) -> Found:
    """Return the logarithm of the mean of exp(-2 d^2) over all pairs of different rows, d their distance.

    Args:
        vectors: (texts, dim), of length 1.
        clusters: for each text its cluster, for instance the pair that it comes from. Texts of one may be alike, and
            clusters are taken for independent. The interval is that of a U-statistic by its first projection.

    It is not defined for fewer than two texts, and has no interval for fewer than two clusters.
    """
    n = len(vectors)
    if n < 2:
        return Found(None)
    means = np.zeros(n)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        kernel = np.exp(4 * (vectors[rows] @ vectors.T) - 4)  # d^2 = 2 - 2 cos
        kernel[np.arange(len(kernel)), np.arange(n)[rows]] = 0
        means[rows] = kernel.sum(1) / (n - 1)
    mean = float(means.mean())
    value = float(np.log(mean))
    _, of = np.unique(clusters, return_inverse=True)
    # First projection of the U-statistic: a text takes part in its pairs from either side, hence the factor 2.
    parts = np.bincount(of, weights=2 * (means - mean) / n)
    if len(parts) < 2:
        return Found(value)
    # Delta method: the derivative of log(m) is 1 / m.
    error = float(np.sqrt(len(parts) / (len(parts) - 1) * np.square(parts).sum())) / mean
    half = float(ndtri(0.975)) * error
    return Found(value, value - half, value + half)


def cells(results: Results, options: Options | None = None, *, planned: bool = True) -> ByEncoder:
    """Return the METRICS of all encoders and tasks. Raises StoreError as `by_encoder` does."""
    return by_encoder(results, NAME, options, (ABOUT, _score), planned=planned)


def _score(one: MeasuredJob, name: str) -> Score:
    """Return `alignment` or `uniformity` of a job, and how many pairs or texts it is of."""
    numbers = one.rows[0].numbers
    n = int(numbers["pairs" if name == "alignment" else "texts"] or 0)
    return Score(name=name, value=numbers[name], n=n, low=numbers[f"{name}_low"], high=numbers[f"{name}_high"])


def _bounds(found: ByEncoder) -> str:
    done = (one for row in found.rows for task in found.tasks for one in found.of(row, task))
    return " or ".join(dict.fromkeys(f"{one.options['positive']:g}" for one in done))


def _left_out(found: ByEncoder) -> list[str]:
    """Say how many texts have the vector 0, for each encoder that has such texts."""
    said = []
    for row, task in ((row, task) for row in found.rows for task in found.tasks if found.of(row, task)):
        n = max(int(one.rows[0].numbers["without_direction"] or 0) for one in found.of(row, task))
        said += [f"{row[0]}: {n} texts of {task} have the vector 0, and are left out with their pairs."] if n else []
    return said


def _cell(found: ByEncoder, row: Row, task: str) -> dict[str, object]:
    of = found.cells[row[1], row[0], task]
    cell: dict[str, object] = {"encoder": row[0], "task": task, "evaluation": row[1]}
    for name in METRICS:
        told = of.told(name)
        n = told.pop("n")
        cell |= {name: told.pop("value"), **{f"{name}_{key}": value for key, value in told.items()}}
        cell["n" if name == "alignment" else "texts"] = n
    return cell | {"flags": found.flags.told(run.job for run in of.done)}
