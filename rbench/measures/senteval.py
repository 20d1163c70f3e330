"""Transfer tasks: the accuracy of logistic regression on an encoder's frozen vectors, by SentEval's protocol.

The tasks are those of SimCSE and its successors (Conneau and Kiela 2018): MR, CR, SUBJ, MPQA, SST2, TREC and MRPC.
Nothing of the encoder is trained. A pair (u, v) has the features |u - v| and u * v, side by side. The classifier is
scikit-learn's, which SentEval calls `usepytorch: False`. The papers' numbers are made with SentEval's PyTorch
classifier, which fits the same model by Adam in batches of 64, chooses its weight decay from 1e-5 to 1e-2, and stops
early on held-out rows. Beside the protocol's folds, its numbers depend on the random numbers of that training.

SentEval has three ways to divide a task. `nested`, for tasks without splits: K folds, in each of which the
regularisation is chosen by K folds of its training rows. `folds`, for tasks with a test split alone: the regularisation
is chosen by K folds of the training rows. `split`, for tasks with three splits: it is chosen on the validation rows.
The classifier is then fitted on all training rows. Folds are stratified and shuffled with seed 1111. The regularisation
with the best accuracy wins, rounded to two decimals of a percentage as SentEval does, the strongest first among equals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, field_validator

from rbench.errors import JobError
from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import ByEncoder, Row, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Positive, Score, Strict, TaskSpec
from rbench.score import wilson
from rbench.tables import Results, Table
from rbench.tables.cells import PLAIN
from rbench.tables.table import MARK, Entry, Meaning, Number, average, best_of

if TYPE_CHECKING:
    from rbench.tasks import Example


VERSION = 1
USES = ("encoders.sentence",)
NAME = "senteval"
TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
PRINTED = (TASKS, tuple(task for task in TASKS if task != "trec"))
"""The tasks over which papers average: SimCSE and V-advCSE all seven, RobustSentEmbed those without TREC."""
ROWS = {"mr": 10_662, "cr": 3_775, "subj": 10_000, "mpqa": 10_606, "sst2": 1_821, "trec": 500, "mrpc": 1_725}
"""By task, the rows whose accuracy SentEval and the papers print: all of a task that is cross-validated, else its test
rows (Conneau and Kiela 2018)."""
ABOUT = Meaning(
    "Transfer tasks",
    "accuracy of a logistic regression on the encoder's frozen vectors, by SentEval's protocol",
    "highest",
    digits=2,
    undefined="no row",
    good="better",
    among="of each column",
)
Protocol = Literal["nested", "folds", "split"]
_PROTOCOLS = {
    "nested": "cross-validation over all rows, regularisation chosen by an inner one",
    "folds": "regularisation chosen by cross-validation of training and validation rows, accuracy on test rows",
    "split": "regularisation chosen on validation rows, accuracy on test rows",
}
PROTOCOLS: dict[str, Protocol] = {
    **dict.fromkeys(("mr", "cr", "subj", "mpqa"), "nested"),
    **dict.fromkeys(("trec", "mrpc"), "folds"),
}
"""How SentEval divides its tasks, see above. All others are divided as `split`."""
NEEDED = {"nested": (), "folds": ("train", "test"), "split": ("train", "validation", "test")}
"""The splits that each protocol needs. `nested` joins all that there are; `folds` adds validation rows to training."""
Array = NDArray[np.float64]
Labels = NDArray[np.int64]
SEED = 1111
GRIDS: dict[Protocol, tuple[float, ...]] = {
    "nested": tuple(2.0**power for power in range(-2, 4)),
    "folds": tuple(2.0**power for power in range(-1, 6)),
    "split": tuple(2.0**power for power in range(-2, 4)),
}
"""Values of C, the inverse strength of L2 regularisation, by protocol: those of SentEval's scikit-learn classifier."""


class Options(Strict):
    """Which tasks, and how each is divided."""

    tasks: tuple[str, ...] = TASKS
    """Tasks with classes. An average is marked where one of these is missing in the table."""
    folds: Positive = 10
    """Folds of the cross-validations, at least 2. SimCSE and its successors take 10."""
    protocols: Mapping[str, Protocol] = {}
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

    def protocol(self, task: str) -> Protocol:
        """Return how the rows of a task are divided."""
        return self.protocols.get(task, PROTOCOLS.get(task, "split"))


class Senteval(Measure[Options]):
    """Transfer tasks: the accuracy of logistic regression on an encoder's frozen vectors, by SentEval's protocol."""

    title = "Transfer tasks: logistic regression on frozen vectors (SentEval)"
    reads = "encoders"
    options_by_task = ("tasks", "protocols")
    numbers = {"senteval": ABOUT}

    def tasks(self, options: Options) -> dict[str, Options]:
        """Return the tasks to load, each with the options that decide its accuracy."""
        return {
            task: options.model_copy(update={"tasks": (task,), "protocols": {task: options.protocol(task)}})
            for task in options.tasks
        }

    def splits(self, options: Options, task: TaskSpec) -> tuple[str, ...]:
        """Return the splits that the protocol needs. Raises ValueError for a task without classes."""
        if not task.labels:
            raise ValueError(
                f"task {task.name} has no classes (its kind is {task.kind}); transfer tasks are classified"
            )
        if len(task.columns) > 2:
            raise ValueError(f"task {task.name} has {len(task.columns)} columns; features are of one text or of a pair")
        return NEEDED[options.protocol(task.name)]

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
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

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each encoder, a column for each task, and their average."""
        said = options.model_fields_set
        chosen = Options.model_validate(options.model_dump(include={"folds", "max_rows"} & said))
        found = cells(results, chosen if chosen.model_fields_set else None, planned=False)
        shown = [task for task in found.tasks if "tasks" not in said or task in options.tasks]
        several = len(shown) > 1
        unlike = _unlike(found, shown)
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
        means = (
            [_mean_cell(row, mean, shown) for row, mean in zip(found.rows, averages, strict=True)] if several else []
        )
        return Table(
            metric=NAME,
            header=(
                *found.named,
                *shown,
                *([_heading(shown, unlike)] if several else []),
                *(f"{task} F1" for task in pairs),
            ),
            rows=tuple(rows),
            cells=(*(_cell(found, row, task) for row in found.rows for task in shown if found.of(row, task)), *means),
            notes=(*_notes(found, shown, unlike), *found.common_notes()),
            interval=found.interval(
                "Wilson 95% intervals; that of an average is joined from those of its tasks (Zou and Donner 2008). "
                "The F1 has none."
            ),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> ByEncoder:
        return cells(results)


def _drawn(rows: list[Example], most: int | None) -> list[Example]:
    """Return at most so many rows, in their order."""
    if most is None or most >= len(rows):
        return rows
    return [rows[i] for i in sorted(np.random.default_rng(SEED).permutation(len(rows))[:most])]


def features(context: EncoderContext, rows: Sequence[Example]) -> Array:
    """Return what is classified: vectors of single texts, or |u - v| and u * v of pairs. (rows, dim) or (rows, 2 dim).

    Raises JobError where a vector is not finite.
    """
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
    labels = np.array([one.label for own in rows.values() for one in own], dtype=np.int64)

    def told(done: int, of: int) -> None:
        context.progress(done, of, f"{context.task.name}, folds fitted")

    if protocol == "nested":
        return nested(vectors, labels, folds, told), labels
    ends = np.cumsum([len(own) for own in rows.values()])
    at = {name: slice(end - len(own), end) for (name, own), end in zip(rows.items(), ends, strict=True)}
    test, tested = vectors[at["test"]], labels[at["test"]]
    if protocol == "folds":
        known = slice(0, at["test"].start)
        return with_folds((vectors[known], labels[known]), test, folds, told), tested
    train, validation = ((vectors[at[name]], labels[at[name]]) for name in ("train", "validation"))
    if len(np.unique(train[1])) < 2:
        raise JobError(
            f"the training rows of {context.task.name} are all of one class, so there is nothing to classify"
        )
    return with_split(train, validation, test), tested


def _f1(predicted: Labels, labels: Labels) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, zero_division=0.0))


class Fitted(NamedTuple):
    """What classifiers said of the rows that they were tested on."""

    predicted: Labels
    """The class of each test row, (rows,)."""
    chosen: tuple[float, ...]
    """The C of each classifier: one a fold of `nested`, else one."""
    folds: tuple[NDArray[np.int64], ...]
    """The test rows of each classifier."""

    def accuracy(self, labels: Labels) -> float:
        """Return the mean over classifiers of the share of their rows that they classify correctly, 0..1."""
        return float(np.mean([(self.predicted[rows] == labels[rows]).mean() for rows in self.folds]))


def nested(vectors: Array, labels: Labels, folds: int, progress: Callable[[int, int], None]) -> Fitted:
    """Cross-validate over all rows. Raises JobError as `check_folds`.

    Args:
        vectors, labels: (rows, features) and (rows,).
        folds: how many folds, outer and inner.
        progress: called with the outer folds that are done, and their number.
    """
    check_folds(labels, folds, inner=True)
    predicted, chosen, tested = np.zeros_like(labels), [], []
    for done, (train, test) in enumerate(_folds(labels, folds)):
        progress(done, folds)
        best = _best(vectors[train], labels[train], folds, GRIDS["nested"])
        predicted[test] = fit(vectors[train], labels[train], best).predict(vectors[test])
        chosen.append(best)
        tested.append(test)
    return Fitted(predicted, tuple(chosen), tuple(tested))


def with_folds(train: tuple[Array, Labels], test: Array, folds: int, progress: Callable[[int, int], None]) -> Fitted:
    """Choose by folds of the training rows, and predict the test rows. Raises JobError as `check_folds`."""
    check_folds(train[1], folds, inner=False)
    progress(0, 1)
    best = _best(*train, folds, GRIDS["folds"])
    return _tested(train, test, best)


def with_split(train: tuple[Array, Labels], validation: tuple[Array, Labels], test: Array) -> Fitted:
    """Choose on the validation rows, and predict the test rows."""
    scores = [_rounded([_share(one, *validation)]) for one in _path(*train, GRIDS["split"])]
    return _tested(train, test, GRIDS["split"][int(np.argmax(scores))])


def check_folds(labels: Labels, folds: int, *, inner: bool) -> None:
    """Raise JobError where a class has too few rows for each fold to have one of it, in the inner folds too."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise JobError(f"all {len(labels)} rows are of one class, so there is nothing to classify")
    fewest = int(counts.min())
    left = fewest - -(-fewest // folds) if inner else fewest  # the largest fold takes this many of the class away
    if left < folds:
        raise JobError(
            f"class {int(classes[counts.argmin()])} has {fewest} rows, too few for {folds} folds"
            f"{' within ' + str(folds) + ' folds' if inner else ''}; set `folds` lower, or add rows"
        )


def fit(vectors: Array, labels: Labels, c: float) -> Any:
    """Return scikit-learn's logistic regression with L2 regularisation of inverse strength `c`."""
    return next(iter(_path(vectors, labels, (c,))))


def _tested(train: tuple[Array, Labels], test: Array, best: float) -> Fitted:
    return Fitted(fit(*train, best).predict(test), (best,), (np.arange(len(test)),))


def _best(vectors: Array, labels: Labels, folds: int, grid: Sequence[float]) -> float:
    """Return the C with the best mean accuracy over stratified folds."""
    scores = np.zeros((len(grid), folds))
    for fold, (train, test) in enumerate(_folds(labels, folds)):
        for i, one in enumerate(_path(vectors[train], labels[train], grid)):
            scores[i, fold] = _share(one, vectors[test], labels[test])
    return grid[int(np.argmax([_rounded(row) for row in scores]))]


def _path(vectors: Array, labels: Labels, grid: Sequence[float]) -> Any:
    """Yield the classifier for each C, ascending. Each starts from the one before, which changes only the time.

    The optimum is unique, so with this tolerance the solver hardly matters. Raises JobError where it does not converge.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    one = LogisticRegression(warm_start=True, tol=1e-6, max_iter=5000, random_state=SEED)
    for c in grid:
        one.set_params(C=c)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                one.fit(vectors, labels)
            except ConvergenceWarning as warning:
                raise JobError(f"logistic regression with C = {c:g} did not converge: {warning}") from warning
        yield one


def _folds(labels: Labels, folds: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(folds, shuffle=True, random_state=SEED).split(np.zeros(len(labels)), labels)


def _share(one: Any, vectors: Array, labels: Labels) -> float:
    return float((one.predict(vectors) == labels).mean())


def _rounded(shares: Sequence[float] | Array) -> float:
    return round(100 * float(np.mean(shares)), 2)


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


def _heading(shown: list[str], unlike: Mapping[str, int]) -> str:
    """Return the heading of the average: the bare word only where papers average over the same tasks and rows."""
    printed = any({*shown} == {*tasks} for tasks in PRINTED)
    return f"Avg.{MARK if unlike else ''}" if printed else f"Avg. of {len(shown)}"


def _unlike(found: ByEncoder, shown: list[str]) -> dict[str, int]:
    """Return the numbers of rows of the tasks that have other rows than SentEval, as far as they are done."""
    done = {task: [one for row in found.rows for one in found.of(row, task)] for task in shown}
    counts = {task: int(jobs[0].rows[0].numbers["n"] or 0) for task, jobs in done.items() if jobs}
    return {task: n for task, n in counts.items() if n != ROWS.get(task, n)}


def _notes(found: ByEncoder, shown: list[str], unlike: Mapping[str, int]) -> tuple[str, ...]:
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
        *([_others(unlike)] if unlike and printed else []),
        *(f"{task}: {note}" for task, one in there.items() if one is not None for note in one.spec.task.notes),
    )


def _others(unlike: Mapping[str, int]) -> str:
    rows = ", ".join(f"{task} has {n:,} rows for {ROWS[task]:,}" for task, n in unlike.items())
    return f"Avg.{MARK}: comparable to no printed average, because rows are not SentEval's: {rows}."


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
    told = {name: getattr(mean, name, None) for name in ("value", "low", "high", "flagged")}
    return {"encoder": row[0], "evaluation": row[1], "average_of": list(shown), **told}
