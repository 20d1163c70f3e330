"""Transfer tasks: the accuracy of logistic regression on an encoder's frozen vectors, by SentEval's protocol.

The tasks are those of SimCSE and its successors (Conneau and Kiela 2018): MR, CR, SUBJ, MPQA, SST2, TREC and MRPC.
Nothing of the encoder is trained. A pair (u, v) has the features |u - v| and u * v, side by side. `_logistic` divides
the rows, chooses the regularisation and fits. The classifier is scikit-learn's, which SentEval calls `usepytorch:
False`. The papers' numbers are made with SentEval's PyTorch classifier, which fits the same model by Adam in batches of
64, chooses its weight decay from 1e-5 to 1e-2, and stops early on held-out rows. Beside the protocol's folds, its
numbers depend on the random numbers of that training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import field_validator

from rbench.errors import JobError
from rbench.measures import EncoderContext, MeasuredRow
from rbench.spec import Positive, Strict, TaskSpec
from rbench.tables import Results, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rbench.measures._logistic import Array, Fitted, Labels
    from rbench.tasks import Example

TITLE = "Transfer tasks: logistic regression on frozen vectors (SentEval)"
VERSION = 1
OF = "encoders"
USES = ("encoders.sentence",)
NAME = "senteval"
BY_TASK = ("tasks", "protocols")
TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
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
    from rbench.measures._senteval_table import made

    said = options.model_fields_set
    chosen = Options.model_validate(options.model_dump(include={"folds", "max_rows"} & said))
    return made(results, chosen if chosen.model_fields_set else None, options.tasks if "tasks" in said else None)
