"""Transfer tasks: the accuracy of logistic regression on an encoder's frozen vectors, by SentEval's protocol.

The tasks are those of SimCSE and its successors (Conneau and Kiela 2018): MR, CR, SUBJ, MPQA, SST2, TREC and MRPC.
Nothing of the encoder is trained. A pair (u, v) has the features |u - v| and u * v, side by side. `_logistic` divides
the rows, chooses the regularisation and fits. The classifier is scikit-learn's, which SentEval calls `usepytorch:
False`. The papers' numbers are made with SentEval's PyTorch classifier, which fits the same model by Adam in batches of
64, chooses its weight decay from 1e-5 to 1e-2, and stops early on held-out rows. Beside the protocol's folds, its
numbers depend on the random numbers of that training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, field_validator

from rbench.errors import JobError
from rbench.measures import EncoderContext, MeasuredRow
from rbench.measures._by_encoder import ByEncoder, Row, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Positive, Score, Strict, TaskSpec
from rbench.score import wilson
from rbench.tables import Results, Table
from rbench.tables.cells import PLAIN
from rbench.tables.columns import average, best_of
from rbench.tables.table import Entry, Meaning, Number

if TYPE_CHECKING:
    from rbench.measures._logistic import Array, Fitted, Labels
    from rbench.tasks import Example

TITLE = "Transfer tasks: logistic regression on frozen vectors (SentEval)"
VERSION = 1
OF = "encoders"
USES = ("encoders.sentence",)
NAME = "senteval"
BY_TASK = ("tasks", "protocols")
TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
PRINTED = (TASKS, tuple(task for task in TASKS if task != "trec"))
"""The tasks over which papers average: SimCSE and V-advCSE all seven, RobustSentEmbed those without TREC."""
ABOUT = Meaning(
    "Transfer tasks",
    "accuracy of a logistic regression on the encoder's frozen vectors, by SentEval's protocol",
    "highest",
    digits=2,
    undefined="no row",
    good="better",
    among="of each column",
)
_PROTOCOLS = {
    "nested": "cross-validation over all rows, regularisation chosen by an inner one",
    "folds": "regularisation chosen by cross-validation of training and validation rows, accuracy on test rows",
    "split": "regularisation chosen on validation rows, accuracy on test rows",
}
PROTOCOLS: dict[str, Literal["nested", "folds", "split"]] = {
    **dict.fromkeys(("mr", "cr", "subj", "mpqa"), "nested"),
    **dict.fromkeys(("trec", "mrpc"), "folds"),
}
"""How SentEval divides its tasks, see `_logistic`. All others are divided as `split`."""
NEEDED = {"nested": (), "folds": ("train", "test"), "split": ("train", "validation", "test")}
"""The splits that each protocol needs. `nested` joins all that there are; `folds` adds validation rows to training."""


class Options(Strict):
    """Which tasks, and how each is divided."""

    tasks: tuple[str, ...] = TASKS
    """Tasks with classes. An average is marked where one of these is missing in the table."""
    folds: Positive = 10
    """Folds of the cross-validations, at least 2. SimCSE and its successors take 10."""
    protocols: Mapping[str, Literal["nested", "folds", "split"]] = {}
    """By task, how its rows are divided, where it is not as SentEval does: `nested`: cross-validation over all rows.
    `folds`: training and test rows. `split`: training, validation and test rows, as for tasks that SentEval lacks."""
    max_rows: Positive | None = None
    """At most this many rows of each split, drawn with seed 1111, for a quick look. None: all, as in papers."""

    @field_validator("folds")
    @classmethod
    def _several(cls, folds: int) -> int:
        if folds < 2:
            raise ValueError("`folds` is at least 2")
        return folds

    def protocol(self, task: str) -> Literal["nested", "folds", "split"]:
        """Return how the rows of a task are divided."""
        return self.protocols.get(task, PROTOCOLS.get(task, "split"))


def tasks(options: Options) -> dict[str, Options]:
    """Return the tasks to load, each with the options that decide its accuracy."""
    return {
        task: options.model_copy(update={"tasks": (task,), "protocols": {task: options.protocol(task)}})
        for task in options.tasks
    }


def splits(options: Options, task: TaskSpec) -> tuple[str, ...]:
    """Return the splits that the protocol needs. Raises ValueError for a task without classes."""
    if not task.labels:
        raise ValueError(f"task {task.name} has no classes (its kind is {task.kind}); transfer tasks are classified")
    if len(task.columns) > 2:
        raise ValueError(f"task {task.name} has {len(task.columns)} columns; features are of one text or of a pair")
    return NEEDED[options.protocol(task.name)]


def run(options: Options, context: EncoderContext) -> list[MeasuredRow]:
    """Return one row: accuracy, and F1 of the second class for tasks of paraphrases, with all test rows packed."""
    from threadpoolctl import threadpool_limits

    from rbench.score.packed import packed

    protocol = options.protocol(context.task.name)
    used: list[str] = [name for name in ("train", "validation", "test") if name in context.splits]
    rows = {name: _drawn(context.rows(name), options.max_rows) for name in used}
    vectors = features(context, [one for name in used for one in rows[name]])
    with threadpool_limits(1):  # the matrices are small: threads cost more than they save
        fitted, labels = _fitted(protocol, options.folds, rows, vectors, context)
    hits = fitted.predicted == labels
    return [
        MeasuredRow(
            names={"protocol": protocol, "hits": packed(hits)},
            numbers={
                "n": len(labels),
                "correct": int(hits.sum()),
                "accuracy": fitted.accuracy(labels),
                "f1": _f1(fitted.predicted, labels) if context.task.kind == "paraphrase" else None,
                "least_c": min(fitted.chosen),
                "most_c": max(fitted.chosen),
            },
        )
    ]


def _drawn(rows: list[Example], most: int | None) -> list[Example]:
    """Return at most so many rows, in their order."""
    import numpy as np

    from rbench.measures._logistic import SEED

    if most is None or most >= len(rows):
        return rows
    return [rows[i] for i in sorted(np.random.default_rng(SEED).permutation(len(rows))[:most])]


def features(context: EncoderContext, rows: Sequence[Example]) -> Array:
    """Return what is classified: vectors of single texts, or |u - v| and u * v of pairs. (rows, dim) or (rows, 2 dim).

    Raises JobError where a vector is not finite.
    """
    import numpy as np

    columns = list(zip(*(one.texts for one in rows), strict=True))
    found = context.vectors([text for column in columns for text in column])
    if len(columns) == 1:
        return found
    first, second = found[: len(rows)], found[len(rows) :]
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def _fitted(
    protocol: str, folds: int, rows: Mapping[str, Sequence[Example]], vectors: Array, context: EncoderContext
) -> tuple[Fitted, Labels]:
    """Divide the rows, whose vectors follow each other split by split, and return the classes of the tested rows."""
    import numpy as np

    from rbench.measures import _logistic

    labels = np.array([one.label for own in rows.values() for one in own], dtype=np.int64)

    def told(done: int, of: int) -> None:
        context.progress(done, of, f"{context.task.name}, folds fitted")

    if protocol == "nested":
        return _logistic.nested(vectors, labels, folds, told), labels
    ends = np.cumsum([len(own) for own in rows.values()])
    at = {name: slice(end - len(own), end) for (name, own), end in zip(rows.items(), ends, strict=True)}
    test, tested = vectors[at["test"]], labels[at["test"]]
    if protocol == "folds":
        known = slice(0, at["test"].start)
        return _logistic.with_folds((vectors[known], labels[known]), test, folds, told), tested
    train, validation = ((vectors[at[name]], labels[at[name]]) for name in ("train", "validation"))
    if len(np.unique(train[1])) < 2:
        raise JobError(
            f"the training rows of {context.task.name} are all of one class, so there is nothing to classify"
        )
    return _logistic.with_split(train, validation, test), tested


def _f1(predicted: Labels, labels: Labels) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, zero_division=0.0))


def table(options: Options, results: Results) -> Table:
    """Make one row for each encoder, a column for each task, and their average."""
    said = options.model_fields_set
    chosen = Options.model_validate(options.model_dump(include={"folds", "max_rows"} & said))
    found = cells(results, chosen if chosen.model_fields_set else None, planned=False)
    shown = [task for task in found.tasks if "tasks" not in said or task in options.tasks]
    several = len(shown) > 1
    done = {task: [one for row in found.rows for one in found.of(row, task)] for task in shown}
    pairs = [task for task in shown if any(_score(one, "f1").value is not None for one in done[task])]
    grid = [[found.number(row, task, "accuracy") for task in shown] for row in found.rows]
    columns = [list(column) for column in zip(*grid, strict=True)]
    averages = [average(numbers, ABOUT, intervals=True) for numbers in grid]
    columns += [averages] if several else []
    columns += [[found.number(row, task, "f1") for row in found.rows] for task in pairs]
    best = [best_of(column, "highest") for column in columns]
    rows: list[tuple[Entry, ...]] = [
        (*found.names(row), *(column[i] for column in best)) for i, row in enumerate(found.rows)
    ]
    means = [_mean_cell(row, mean, shown) for row, mean in zip(found.rows, averages, strict=True)] if several else []
    return Table(
        metric=NAME,
        layout="paper",
        header=(*found.named, *shown, *([_heading(shown)] if several else []), *(f"{task} F1" for task in pairs)),
        rows=tuple(rows),
        groups=frozenset(),
        cells=(*(_cell(found, row, task) for row in found.rows for task in shown if found.of(row, task)), *means),
        notes=(*_notes(found, shown), *found.common_notes()),
        interval=found.interval(
            "Wilson 95% intervals; that of an average is joined from those of its tasks (Zou and Donner 2008). The F1 "
            "has none."
        ),
        flags=found.flags.listed(found.asked),
        about=ABOUT,
    )


def cells(results: Results, chosen: BaseModel | None = None, *, planned: bool = True) -> ByEncoder:
    """Return the accuracies and F1 of all encoders and tasks. Arguments and errors are those of `by_encoder`."""
    return by_encoder(
        results,
        NAME,
        chosen,
        (ABOUT, _score),
        TASKS,
        hits=lambda one, name: one.rows[0] if name == "accuracy" else None,
        spoken=lambda cell: [(cell.task, "accuracy")],
        planned=planned,
    )


def _score(one: MeasuredJob, name: str) -> Score:
    """Return `accuracy` or `f1` of a job."""
    numbers = one.rows[0].numbers
    n, value = int(numbers["n"] or 0), numbers[name]
    low, high = (wilson((value or 0.0) * n, n) if name == "accuracy" else None) or (None, None)
    return Score(name=name, value=value, n=n, low=low, high=high)


def _heading(shown: list[str]) -> str:
    """Return the heading of the average: the bare word only where papers average over the same tasks."""
    return "Avg." if any({*shown} == {*tasks} for tasks in PRINTED) else f"Avg. of {len(shown)}"


def _notes(found: ByEncoder, shown: list[str]) -> tuple[str, ...]:
    there = {task: next((one for row in found.rows for one in found.of(row, task)), None) for task in shown}
    told: dict[str, list[str]] = {}
    for task, one in there.items():
        if one is not None:
            numbers, protocol = one.rows[0].numbers, one.rows[0].names["protocol"]
            told.setdefault(protocol, []).append(f"{task} (n = {int(numbers['n'] or 0)})")
    folds = sorted({int(one.options["folds"]) for one in there.values() if one is not None})
    missing = [task for task in TASKS if task not in shown]
    printed = any({*shown} == {*tasks} for tasks in PRINTED)
    absent = f"Not here: {', '.join(missing)}, so that this average compares with none that papers print."
    return (
        *(f"{', '.join(tasks)}: {_PROTOCOLS[protocol]}." for protocol, tasks in told.items()),
        f"Folds: {', '.join(map(str, folds))}. The classifier is scikit-learn's; papers use SentEval's PyTorch "
        "classifier, which fits the same model by early-stopped Adam.",
        *([absent] if missing and not printed and len(shown) > 1 else []),
        *(f"{task}: {note}" for task, one in there.items() if one is not None for note in one.spec.task.notes),
    )


def _cell(found: ByEncoder, row: Row, task: str) -> dict[str, Any]:
    cell, jobs = found.cells[row[1], row[0], task], found.of(row, task)
    told = cell.told("accuracy")
    f1 = cell.number("f1")
    return {
        "encoder": row[0],
        "task": task,
        "evaluation": row[1],
        **{name: told.pop(name) for name in PLAIN},
        "f1": f1.value if f1 is not None else None,
        "least_c": min(one.rows[0].numbers["least_c"] or 0.0 for one in jobs),
        "most_c": max(one.rows[0].numbers["most_c"] or 0.0 for one in jobs),
        **told,
        "flags": found.flags.told(run.job for run in cell.done),
    }


def _mean_cell(row: Row, mean: Number | None, shown: list[str]) -> dict[str, Any]:
    told = {name: getattr(mean, name, None) for name in ("value", "low", "high")}
    return {"encoder": row[0], "evaluation": row[1], "average_of": list(shown), **told}
