"""Accuracy of victims on the test split, before any attack.

An attack tells the accuracy on the texts that it is given, which are often few. So a suite with attacks scores each
victim on the test split, too: on at most `max_rows` rows, drawn once, the same for all victims and seeds, so that
victims are compared row by row. A function or an endpoint is asked where the suite says `evaluate: [test_accuracy]`,
and so is an encoder behind an endpoint, because their answers may cost money. A classifier that was opened on a task
without a validation split was scored on test rows then, and is shown with these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError, StoreError
from rbench.measures import Measure
from rbench.measures._context import Measured, VictimContext
from rbench.measures._predicted import asked
from rbench.schema import AS_IS, Job, MeasuredRow, Positive, Record, Score, Strict
from rbench.score import Share, scored
from rbench.score.contrast import mean_score
from rbench.score.packed import packed, unpacked
from rbench.store.verify import unequal
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Reading, by_place, gathered, score_of
from rbench.tables.cells import Measured as Cell
from rbench.tables.draws import levels_note
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import missing, seeds, spanned
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning, best_of, groups_of

VERSION = 1
USES = ("encoders.classify", "score.packed")
NAME = "test_accuracy"
SEED = 0
"""Draws the rows of every victim."""
ABOUT = Meaning(
    "Accuracy, test split",
    "right / scored rows of the test split, before any attack",
    "highest",
    undefined="no row in the test split",
    good="better",
    among="of each column",
    short="Accuracy",
)
INTERVAL = "Wilson 95% intervals. They cover the choice of rows, not differences between seeds."
_ALONE = "Wilson's"


class Options(Strict):
    """How many rows are scored."""

    max_rows: Positive | None = 2000
    """At most so many rows of the test split, drawn once for all victims. None: all."""


def places(n: int, most: int | None) -> NDArray[np.int64]:
    """Return the places of the rows that are scored, ascending: all of n, or `most` that are drawn."""
    if most is None or most >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(SEED).permutation(n)[:most])


class SplitAccuracy(Measure[Options]):
    """Accuracy of victims on the test split, before any attack."""

    title = "Accuracy on the test split, before any attack"
    reads = "victims"
    serves = ("classification",)
    required_scores = (NAME,)
    workload = "to classify: {:,} rows of test splits"
    numbers = {"test_accuracy": ABOUT}

    def run(self, options: Options, context: VictimContext) -> Measured:
        """Classify the rows, and return one row with whether each was right, packed.

        Raises JobError where the task has no test split, or a test row has no label.
        """
        rows = context.rows("test") if "test" in context.splits else []
        drawn = [rows[i] for i in places(len(rows), options.max_rows)]
        if not drawn or any(one.label is None for one in drawn):
            raise JobError(f"{context.task.name} has no test rows with a label, so there is no accuracy of them")
        labels = np.array([one.label for one in drawn])
        hits = asked(context, [one.texts for one in drawn]).labels == labels
        accuracy = _score(hits)
        context.progress(len(drawn), len(drawn), f"test accuracy {accuracy.value:.3f}")
        row = MeasuredRow(names={"hits": packed(hits)}, numbers={"n": len(hits), "rows": len(rows)})
        return Measured([row], (accuracy,), {"n": len(hits), "rows": len(rows)})

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many rows a job classifies."""
        rows = int(prepared.data[job.spec.task.name].sizes.get("test", 0))
        return min(rows, job.spec.what.options["max_rows"] or rows)

    def unlike(self, record: Record, lines: Sequence[MeasuredRow]) -> Iterator[str]:
        """Say which numbers of a record are not those of its row."""
        if len(lines) != 1:
            yield f"it has {len(lines)} rows, and not one"
            return
        n, rows = int(lines[0].numbers["n"] or 0), int(lines[0].numbers["rows"] or 0)
        yield from unequal(record, (_score(unpacked(lines[0].names["hits"], n)),), {"n": n, "rows": rows})

    def table(self, options: Options, results: Results) -> Table:
        """Make a row for each victim, a column for each task. Raises StoreError where the RUN has no such accuracy."""
        found = cells(results)
        if not found.cells:
            raise StoreError(
                f"{results.root} has no accuracy of test rows: write `evaluate: [{NAME}]` into suite "
                f"{results.plan.suite.name}, and the same rbench run computes it."
            )
        several = len({finetune for _, finetune in found.victims}) > 1
        columns = [(task, label) for task in found.tasks for label in found.labels if _there(found, task, label)]
        own = [[found.cells.get((*victim, *column)) for victim in found.victims] for column in columns]
        numbers = [[cell.number(NAME) if cell is not None else None for cell in column] for column in own]
        entries = [best_of(column, "highest") for column in numbers]
        rows: list[tuple[Entry, ...]] = [
            (encoder, *([finetune] if several else []), *(column[i] for column in entries))
            for i, (encoder, finetune) in enumerate(found.victims)
        ]
        note, jobs = said(found.cells.values(), found.tasks), found.jobs
        draws = draw_notes(results.plan, jobs) or [seeds(jobs)]
        levels = any(cell.levelled(NAME) for cell in found.cells.values())
        return Table(
            metric=NAME,
            header=(
                "Encoder",
                *(["Fine-tuning"] if several else []),
                *(f"{task} {label}".strip() for task, label in columns),
            ),
            rows=tuple(rows),
            groups=groups_of(rows) if several else frozenset(),
            cells=tuple(_told(cell) for cell in found.cells.values()),
            notes=(
                note,
                *results.plan.suite.notes,
                *draws,
                *results.flags.notes(jobs),
                *missing("accuracies", jobs, results.standing),
            ),
            interval=levels_note(_ALONE, "rows", cells=0, missing="rows") if levels else INTERVAL,
            flags=results.flags.listed(jobs),
            about=ABOUT,
            brief=(note, *draws),
        )

    def note(self, found: Iterable[Cell], tasks: Sequence[str]) -> str:
        """Return what tables of attacks say of the accuracies in them."""
        return said(found, tasks)

    def cells(self, results: Results) -> Grid[Cell]:
        return cells(results)


def _score(hits: NDArray[np.bool_]) -> Score:
    return scored(NAME, Share(int(hits.sum()), len(hits)))


def cells(results: Results) -> Grid[Cell]:
    """Return the victims that are scored on test rows, done or not, in the suite's order.

    Classifiers that exist are there, too, that were scored on test rows when they were opened.
    """
    plan, suite = results.plan, results.plan.suite
    own = [job for job in plan.jobs if job.what == NAME]
    labels = list(dict.fromkeys(job.parts[3] for job in own))
    known = {job.needs["victim"] for job in own}
    jobs = [*own, *(job for job in plan.jobs if job.opening and job.key not in known and _opened_on_test(results, job))]
    named = [
        (
            job,
            {
                "encoder": plan.draw(job.parts[0]).encoder,
                "finetune": job.parts[2],
                "task": job.parts[1],
                "label": job.parts[3] if job.measuring and len(labels) > 1 else "",
            },
        )
        for job in jobs
    ]
    orders = {
        "encoder": suite.lineup,
        "finetune": (*(choice.label for choice in suite.finetune), AS_IS),
        "task": suite.tasks,
        "label": ("", *labels),
    }
    read = Reading(ABOUT, _score_of, _joined, partial(_values, results), shares=True)
    found, axes = gathered(results, named, orders, partial(Cell, read=read))
    return Grid(results, found, **axes)


def _opened_on_test(results: Results, job: Job) -> bool:
    record = results.standing.records.get(job.key)
    return record is not None and any(score.name == NAME for score in record.scores)


def _score_of(run: Run, name: str) -> Score | None:
    """Return the accuracy of a job, with its interval."""
    if run.record is None:
        return None
    found = score_of(run.record, NAME)
    return scored(NAME, Share(round((found.value or 0.0) * found.n), found.n))


def _joined(found: Sequence[Score]) -> Score:
    """Return the mean over seeds. All see the same rows, but a text without a usable answer is in no denominator."""
    fewest = min(score.n for score in found)
    return mean_score([score.model_copy(update={"n": fewest}) for score in found])


def _values(results: Results, run: Run, name: str) -> Values | None:
    """Return 1 for each row that was right and 0 for the others, by place; None where a record has the share alone."""
    assert run.record is not None
    if run.job.measuring is None:
        bits, record = run.record.right, run.record
        if bits is None:
            return None
        drawn = "" if len(bits) == record.counts.get("test_rows") else f"{run.seed}:"
        return {f"{drawn}{i}": float(bit) for i, bit in enumerate(bits) if bit != "-"}

    def hits() -> NDArray[np.bool_]:
        (row,) = results.store.rows(run.job)
        return unpacked(row.names["hits"], int(row.numbers["n"] or 0))

    return by_place(results, run.job, hits)


def said(found: Iterable[Cell], tasks: Sequence[str]) -> str:
    """Say what the accuracy is, and how many of how many rows are behind it, task by task."""
    parts, there = [], list(found)
    for task in tasks:
        records = [record for cell in there if cell.task == task for record in cell.records]
        if not records:
            continue
        n = spanned(score_of(record, NAME).n for record in records)
        whole = spanned(record.counts.get("rows", record.counts.get("test_rows", 0)) for record in records)
        parts.append(f"{task} {n}" + (f" of {whole}" if whole != n else ""))
    return f"{ABOUT.title}: {ABOUT.definition}. Rows: {'; '.join(parts) or 'nothing yet'}."


def _there(found: Grid[Cell], task: str, label: str) -> bool:
    return any((cell.task, cell.label) == (task, label) for cell in found.cells.values())


def _told(cell: Cell) -> dict[str, Any]:
    return {
        **cell.at("encoder", "finetune", "task"),
        **({"label": cell.label} if cell.label else {}),
        **cell.told(NAME, "seeds", "seed_sd"),
        "flags": cell.results.flags.told(cell.jobs),
    }
