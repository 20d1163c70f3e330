"""Transfer tasks: the accuracy of logistic regression on an encoder's frozen vectors, by SentEval's protocol.

The tasks are those of SimCSE and its successors (Conneau and Kiela 2018): MR, CR, SUBJ, MPQA, SST2, TREC and MRPC.
Nothing of the encoder is trained. A pair (u, v) has the features |u - v| and u * v, side by side. The classifier is
scikit-learn's, which SentEval calls `usepytorch: False`. The papers' numbers are made with SentEval's PyTorch
classifier, which fits the same model by Adam in batches of 64, chooses its weight decay from 1e-5 to 1e-2, and stops
early on held-out rows. Beside the protocol's folds, its numbers depend on the random numbers of that training.

SentEval has three ways to divide a task. `fit_nested`, for tasks without splits: K folds, in each of which the
regularisation is chosen by K folds of its training rows. `folds`, for tasks with a test split alone: the regularisation
is chosen by K folds of the training rows. `split`, for tasks with three splits: it is chosen on the validation rows.
The classifier is then fitted on all training rows. Folds are stratified and shuffled with seed 1111. The regularisation
with the best accuracy wins, rounded to two decimals of a percentage as SentEval does, the strongest first among equals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from rbench.errors import JobError
from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import EncoderGrid, EncoderRow, collect_by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Positive, Score, Strict, TaskSpec
from rbench.score import wilson
from rbench.tables import Results, Table
from rbench.tables.cells import NUMBER_FIELDS
from rbench.tables.table import NOT_COMPARABLE_MARK, Meaning, Number, TableEntry, average_entries, mark_best_of_column

if TYPE_CHECKING:
    from rbench.tasks import Example


# Part of the key of every job on a transfer task (config/versions.py): raising it fits all classifiers anew.
VERSION = 1
USES = ("encoders.sentence",)
NAME = "senteval"
TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
PRINTED_AVERAGES = (TASKS, tuple(task for task in TASKS if task != "trec"))
"""The tasks over which papers average: SimCSE and V-advCSE all seven, RobustSentEmbed those without TREC."""
PUBLISHED_ROWS = {"mr": 10_662, "cr": 3_775, "subj": 10_000, "mpqa": 10_606, "sst2": 1_821, "trec": 500, "mrpc": 1_725}
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
NEEDED_SPLITS = {"nested": (), "folds": ("train", "test"), "split": ("train", "validation", "test")}
"""The splits that each protocol needs. `fit_nested` joins all that there are; `folds` adds validation rows to
training."""
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
    folds: Annotated[int, Field(ge=2)] = 10
    """Folds of the cross-validations, at least 2. SimCSE and its successors take 10."""
    protocols: Mapping[str, Protocol] = {}
    """By task, how its rows are divided, where it is not as SentEval does: `fit_nested`: cross-validation over all
    rows. `folds`: training and test rows. `split`: training, validation and test rows, as for tasks that SentEval
    lacks."""
    max_rows: Positive | None = None
    """At most this many rows of each split, drawn with seed 1111, for a quick look. None: all, as in papers."""

    def protocol(self, task: str) -> Protocol:
        """Return how the rows of a task are divided."""
        return self.protocols.get(task, PROTOCOLS.get(task, "split"))


class SentEvalAccuracy(Measure[Options]):
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
        return NEEDED_SPLITS[options.protocol(task.name)]

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
        """Return one row: accuracy, and F1 of the second class for tasks of paraphrases, with all test rows packed."""
        from threadpoolctl import threadpool_limits

        from rbench.score.packed import pack_hits

        protocol = options.protocol(context.task.name)
        used: list[str] = [name for name in ("train", "validation", "test") if name in context.splits]
        rows = {name: _draw_rows(context.rows(name), options.max_rows) for name in used}
        vectors = build_features(context, [example for name in used for example in rows[name]])
        with threadpool_limits(1):  # the matrices are small: threads cost more than they save
            fitted, labels = _fit_protocol(protocol, options.folds, rows, vectors, context)
        hits = fitted.predicted == labels
        return [
            MeasuredRow(
                names={"protocol": protocol, "hits": pack_hits(hits)},
                numbers={
                    "n": len(labels),
                    "correct": int(hits.sum()),
                    "accuracy": fitted.accuracy(labels),
                    "f1": _compute_f1(fitted.predicted, labels) if context.task.kind == "paraphrase" else None,
                    "least_c": min(fitted.chosen),
                    "most_c": max(fitted.chosen),
                },
            )
        ]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each encoder, a column for each task, and their average."""
        said = options.model_fields_set
        chosen = Options.model_validate(options.model_dump(include={"folds", "max_rows"} & said))
        found = build_cells(results, chosen if chosen.model_fields_set else None, planned=False)
        shown = [task for task in found.tasks if "tasks" not in said or task in options.tasks]
        several = len(shown) > 1
        unlike = _tasks_with_other_rows(found, shown)
        done = {task: [one for row in found.rows for one in found.of(row, task)] for task in shown}
        pairs = [task for task in shown if any(_score_of_job(one, "f1").value is not None for one in done[task])]
        grid = [[found.number(row, task, "accuracy") for task in shown] for row in found.rows]
        columns = [list(column) for column in zip(*grid, strict=True)]
        averages = [average_entries(numbers, ABOUT, intervals=True) for numbers in grid]
        columns += [averages] if several else []
        columns += [[found.number(row, task, "f1") for row in found.rows] for task in pairs]
        best = [mark_best_of_column(column, "highest") for column in columns]
        rows: list[tuple[TableEntry, ...]] = [
            (*found.names(row), *(column[i] for column in best)) for i, row in enumerate(found.rows)
        ]
        means = (
            [_average_row(row, mean, shown) for row, mean in zip(found.rows, averages, strict=True)] if several else []
        )
        return Table(
            metric=NAME,
            header=(
                *found.named,
                *shown,
                *([_average_heading(shown, unlike)] if several else []),
                *(f"{task} F1" for task in pairs),
            ),
            rows=tuple(rows),
            cells=(
                *(_program_row(found, row, task) for row in found.rows for task in shown if found.of(row, task)),
                *means,
            ),
            notes=(*_build_notes(found, shown, unlike), *found.common_notes()),
            interval=found.interval(
                "Wilson 95% intervals; that of an average is joined from those of its tasks (Zou and Donner 2008). "
                "The F1 has none."
            ),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> EncoderGrid:
        return build_cells(results)


def _draw_rows(rows: list[Example], max_rows: int | None) -> list[Example]:
    """Return at most so many rows, in their order."""
    if max_rows is None or max_rows >= len(rows):
        return rows
    return [rows[i] for i in sorted(np.random.default_rng(SEED).permutation(len(rows))[:max_rows])]


def build_features(context: EncoderContext, rows: Sequence[Example]) -> Array:
    """Return what is classified: vectors of single texts, or |u - v| and u * v of pairs. (rows, dim) or (rows, 2 dim).

    Raises JobError where a vector is not finite.
    """
    columns = list(zip(*(example.texts for example in rows), strict=True))
    encoded = context.vectors([text for column in columns for text in column])
    if len(columns) == 1:
        return encoded
    first, second = encoded[: len(rows)], encoded[len(rows) :]
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def _fit_protocol(
    protocol: str, folds: int, rows: Mapping[str, Sequence[Example]], vectors: Array, context: EncoderContext
) -> tuple[TestedClassifiers, Labels]:
    """Divide the rows, whose vectors follow each other split by split, and return the classes of the tested rows."""
    labels = np.array([example.label for split_rows in rows.values() for example in split_rows], dtype=np.int64)

    def report_folds(done: int, of: int) -> None:
        context.progress(done, of, f"{context.task.name}, folds fitted")

    if protocol == "nested":
        return fit_nested(vectors, labels, folds, report_folds), labels
    split_ends = np.cumsum([len(split_rows) for split_rows in rows.values()])
    slice_of = {
        name: slice(end - len(split_rows), end)
        for (name, split_rows), end in zip(rows.items(), split_ends, strict=True)
    }
    test_vectors, test_labels = vectors[slice_of["test"]], labels[slice_of["test"]]
    if protocol == "folds":
        before_test = slice(0, slice_of["test"].start)
        return fit_with_folds(
            (vectors[before_test], labels[before_test]), test_vectors, folds, report_folds
        ), test_labels
    train, validation = ((vectors[slice_of[name]], labels[slice_of[name]]) for name in ("train", "validation"))
    return fit_with_split(train, validation, test_vectors), test_labels


def _compute_f1(predicted: Labels, labels: Labels) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, zero_division=0.0))


class TestedClassifiers(NamedTuple):
    """What classifiers said of the rows that they were tested on."""

    predicted: Labels
    """The class of each test row, (rows,)."""
    chosen: tuple[float, ...]
    """The C of each classifier: one a fold of `fit_nested`, else one."""
    folds: tuple[NDArray[np.int64], ...]
    """The test rows of each classifier."""

    def accuracy(self, labels: Labels) -> float:
        """Return the mean over classifiers of the share of their rows that they classify correctly, 0..1."""
        return float(np.mean([(self.predicted[rows] == labels[rows]).mean() for rows in self.folds]))


def fit_nested(vectors: Array, labels: Labels, folds: int, progress: Callable[[int, int], None]) -> TestedClassifiers:
    """Cross-validate over all rows. Raises JobError as `check_folds`.

    Args:
        vectors, labels: (rows, features) and (rows,).
        folds: how many folds, outer and inner.
        progress: called with the outer folds that are done, and their number.
    """
    check_folds(labels, folds, inner=True)
    predicted, chosen, test_rows = np.zeros_like(labels), [], []
    for done, (train, test) in enumerate(_divide_folds(labels, folds)):
        progress(done, folds)
        best_c = _choose_c(vectors[train], labels[train], folds, GRIDS["nested"])
        predicted[test] = fit_classifier(vectors[train], labels[train], best_c).predict(vectors[test])
        chosen.append(best_c)
        test_rows.append(test)
    return TestedClassifiers(predicted, tuple(chosen), tuple(test_rows))


def fit_with_folds(
    train: tuple[Array, Labels], test: Array, folds: int, progress: Callable[[int, int], None]
) -> TestedClassifiers:
    """Choose by folds of the training rows, and predict the test rows. Raises JobError as `check_folds`."""
    check_folds(train[1], folds, inner=False)
    progress(0, 1)
    best_c = _choose_c(*train, folds, GRIDS["folds"])
    return _test_classifier(train, test, best_c)


def fit_with_split(train: tuple[Array, Labels], validation: tuple[Array, Labels], test: Array) -> TestedClassifiers:
    """Choose on the validation rows, and predict the test rows."""
    scores = [
        _round_as_senteval([_accuracy_of(classifier, *validation)]) for classifier in _fit_path(*train, GRIDS["split"])
    ]
    return _test_classifier(train, test, GRIDS["split"][int(np.argmax(scores))])


def check_folds(labels: Labels, folds: int, *, inner: bool) -> None:
    """Raise JobError where a class has too few rows for each fold to have one of it, in the inner folds too."""
    classes, counts = np.unique(labels, return_counts=True)
    fewest = int(counts.min())
    # The inner folds divide what is left without the largest outer fold, which has this many rows of the class.
    largest_fold = -(-fewest // folds)  # rounded up
    left = fewest - largest_fold if inner else fewest
    if left < folds:
        raise JobError(
            f"class {int(classes[counts.argmin()])} has {fewest} rows, too few for {folds} folds"
            f"{' within ' + str(folds) + ' folds' if inner else ''}; set `folds` lower, or add rows"
        )


def fit_classifier(vectors: Array, labels: Labels, c: float) -> Any:
    """Return scikit-learn's logistic regression with L2 regularisation of inverse strength `c`."""
    return next(iter(_fit_path(vectors, labels, (c,))))


def _test_classifier(train: tuple[Array, Labels], test: Array, best_c: float) -> TestedClassifiers:
    return TestedClassifiers(fit_classifier(*train, best_c).predict(test), (best_c,), (np.arange(len(test)),))


def _choose_c(vectors: Array, labels: Labels, folds: int, grid: Sequence[float]) -> float:
    """Return the C with the best mean accuracy over stratified folds."""
    scores = np.zeros((len(grid), folds))
    for fold, (train, test) in enumerate(_divide_folds(labels, folds)):
        for i, classifier in enumerate(_fit_path(vectors[train], labels[train], grid)):
            scores[i, fold] = _accuracy_of(classifier, vectors[test], labels[test])
    # Rounded first, as SentEval does: more settings are then equal, and argmax takes the strongest regularisation.
    return grid[int(np.argmax([_round_as_senteval(row) for row in scores]))]


def _fit_path(vectors: Array, labels: Labels, grid: Sequence[float]) -> Any:
    """Yield the classifier for each C, ascending. Each starts from the one before, which changes only the time.

    The optimum is unique, so with this tolerance the solver hardly matters. Raises JobError where it does not converge.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(warm_start=True, tol=1e-6, max_iter=5000, random_state=SEED)
    for c in grid:
        classifier.set_params(C=c)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                classifier.fit(vectors, labels)
            except ConvergenceWarning as warning:
                raise JobError(f"logistic regression with C = {c:g} did not converge: {warning}") from warning
        yield classifier


def _divide_folds(labels: Labels, folds: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(folds, shuffle=True, random_state=SEED).split(np.zeros(len(labels)), labels)


def _accuracy_of(classifier: Any, vectors: Array, labels: Labels) -> float:
    return float((classifier.predict(vectors) == labels).mean())


def _round_as_senteval(shares: Sequence[float] | Array) -> float:
    return round(100 * float(np.mean(shares)), 2)


def build_cells(results: Results, chosen: BaseModel | None = None, *, planned: bool = True) -> EncoderGrid:
    """Return the accuracies and F1 of all encoders and tasks. Arguments and errors are those of `by_encoder`."""
    return collect_by_encoder(
        results,
        NAME,
        chosen,
        (ABOUT, _score_of_job),
        TASKS,
        hits=lambda measured_job, name: measured_job.rows[0] if name == "accuracy" else None,
        spoken=lambda cell: [(cell.task, "accuracy")],
        planned=planned,
    )


def _score_of_job(measured_job: MeasuredJob, name: str) -> Score:
    """Return `accuracy` or `f1` of a job."""
    numbers = measured_job.rows[0].numbers
    n, value = int(numbers["n"] or 0), numbers[name]
    low, high = (wilson((value or 0.0) * n, n) if name == "accuracy" else None) or (None, None)
    return Score(name=name, value=value, n=n, low=low, high=high)


def _average_heading(shown: list[str], unlike: Mapping[str, int]) -> str:
    """Return the heading of the average: the bare word only where papers average over the same tasks and rows."""
    printed = any({*shown} == {*tasks} for tasks in PRINTED_AVERAGES)
    return f"Avg.{NOT_COMPARABLE_MARK if unlike else ''}" if printed else f"Avg. of {len(shown)}"


def _tasks_with_other_rows(encoder_grid: EncoderGrid, shown: list[str]) -> dict[str, int]:
    """Return the numbers of rows of the tasks that have other rows than SentEval, as far as they are done."""
    jobs_of_task = {
        task: [measured_job for row in encoder_grid.rows for measured_job in encoder_grid.of(row, task)]
        for task in shown
    }
    counts = {task: int(jobs[0].rows[0].numbers["n"] or 0) for task, jobs in jobs_of_task.items() if jobs}
    return {task: n for task, n in counts.items() if n != PUBLISHED_ROWS.get(task, n)}


def _build_notes(encoder_grid: EncoderGrid, shown: list[str], unlike: Mapping[str, int]) -> tuple[str, ...]:
    first_jobs = {
        task: next((measured_job for row in encoder_grid.rows for measured_job in encoder_grid.of(row, task)), None)
        for task in shown
    }
    tasks_by_protocol: dict[str, list[str]] = {}
    for task, measured_job in first_jobs.items():
        if measured_job is not None:
            numbers, protocol = measured_job.rows[0].numbers, measured_job.rows[0].names["protocol"]
            tasks_by_protocol.setdefault(protocol, []).append(f"{task} (n = {int(numbers['n'] or 0)})")
    folds = sorted(
        {int(measured_job.options["folds"]) for measured_job in first_jobs.values() if measured_job is not None}
    )
    missing = [task for task in TASKS if task not in shown]
    printed = any({*shown} == {*tasks} for tasks in PRINTED_AVERAGES)
    absent_note = f"Not here: {', '.join(missing)}, so that this average compares with none that papers print."
    return (
        *(f"{', '.join(tasks)}: {_PROTOCOLS[protocol]}." for protocol, tasks in tasks_by_protocol.items()),
        f"Folds: {', '.join(map(str, folds))}. The classifier is scikit-learn's; papers use SentEval's PyTorch "
        "classifier, which fits the same model by early-stopped Adam.",
        *([absent_note] if missing and not printed and len(shown) > 1 else []),
        *([_describe_others(unlike)] if unlike and printed else []),
        *(
            f"{task}: {note}"
            for task, measured_job in first_jobs.items()
            if measured_job is not None
            for note in measured_job.spec.task.notes
        ),
    )


def _describe_others(unlike: Mapping[str, int]) -> str:
    rows = ", ".join(f"{task} has {n:,} rows for {PUBLISHED_ROWS[task]:,}" for task, n in unlike.items())
    return f"Avg.{NOT_COMPARABLE_MARK}: comparable to no printed average, because rows are not SentEval's: {rows}."


def _program_row(encoder_grid: EncoderGrid, row: EncoderRow, task: str) -> dict[str, Any]:
    cell, jobs = encoder_grid.cells[row[1], row[0], task], encoder_grid.of(row, task)
    fields = cell.told("accuracy")
    f1 = cell.number("f1")
    return {
        "encoder": row[0],
        "task": task,
        "evaluation": row[1],
        **{name: fields.pop(name) for name in NUMBER_FIELDS},
        "f1": f1.value if f1 is not None else None,
        "least_c": min(measured_job.rows[0].numbers["least_c"] or 0.0 for measured_job in jobs),
        "most_c": max(measured_job.rows[0].numbers["most_c"] or 0.0 for measured_job in jobs),
        **fields,
        "flags": encoder_grid.flags.told(run.job for run in cell.done),
    }


def _average_row(row: EncoderRow, mean: Number | None, shown: list[str]) -> dict[str, Any]:
    fields = {name: getattr(mean, name, None) for name in ("value", "low", "high", "flagged")}
    return {"encoder": row[0], "evaluation": row[1], "average_of": list(shown), **fields}
