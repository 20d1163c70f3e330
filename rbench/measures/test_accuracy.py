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
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError
from rbench.measures import Measure
from rbench.measures._context import Measured, VictimContext
from rbench.measures._predicted import ask_victim
from rbench.schema import AS_IS, Job, MeasuredRow, Positive, Record, Score, Strict
from rbench.score import Proportion, make_score
from rbench.score.contrast import mean_score
from rbench.score.packed import pack_hits, unpack_hits
from rbench.store.verify import find_unequal
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, NumberReading, find_score, gather_cells, read_values_by_place
from rbench.tables.cells import MeasuredCell as Cell
from rbench.tables.draws import levels_note
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import format_range, seeds_note, unfinished_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, TableEntry, group_starts, mark_best_of_column

# Part of the key of every job that scores test rows (config/versions.py): raising it asks all victims anew.
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


def draw_places(num_rows: int, max_rows: int | None) -> NDArray[np.int64]:
    """Return the places of the rows that are scored, ascending: all of n, or `max_rows` that are drawn."""
    if max_rows is None or max_rows >= num_rows:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(SEED).permutation(num_rows)[:max_rows])


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

        Raises JobError where a test row has no label.
        """
        rows = context.rows("test")
        drawn = [rows[i] for i in draw_places(len(rows), options.max_rows)]
        if any(example.label is None for example in drawn):
            raise JobError(f"{context.task.name} has test rows without a label, so there is no accuracy of them")
        labels = np.array([example.label for example in drawn])
        hits = ask_victim(context, [example.texts for example in drawn]).labels == labels
        accuracy = _accuracy_of(hits)
        context.progress(len(drawn), len(drawn), f"test accuracy {accuracy.value:.3f}")
        row = MeasuredRow(names={"hits": pack_hits(hits)}, numbers={"n": len(hits), "rows": len(rows)})
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
        yield from find_unequal(record, (_accuracy_of(unpack_hits(lines[0].names["hits"], n)),), {"n": n, "rows": rows})

    def table(self, options: Options, results: Results) -> Table:
        """Make a row for each victim, a column for each task."""
        grid = build_cells(results)
        several_strategies = len({finetune for _, finetune in grid.victims}) > 1
        header = ["Encoder", "Fine-tuning"] if several_strategies else ["Encoder"]
        with_cells = {(cell.task, cell.label) for cell in grid.cells.values()}
        number_columns = []
        for task, label in product(grid.tasks, grid.labels):
            if (task, label) in with_cells:
                header.append(f"{task} {label}".strip())
                cells = [grid.cells.get((*victim, task, label)) for victim in grid.victims]
                numbers = [cell.number(NAME) if cell is not None else None for cell in cells]
                number_columns.append(mark_best_of_column(numbers, "highest"))
        rows: list[tuple[TableEntry, ...]] = []
        for (encoder, finetune), *entries in zip(grid.victims, *number_columns, strict=True):
            names = [encoder, finetune] if several_strategies else [encoder]
            rows.append((*names, *entries))
        note, jobs = describe_rows(grid.cells.values(), grid.tasks), grid.jobs
        seed_notes = draw_notes(results.plan, jobs) or [seeds_note(jobs)]
        has_seed_levels = any(cell.has_seed_levels(NAME) for cell in grid.cells.values())
        return Table(
            metric=NAME,
            header=tuple(header),
            rows=tuple(rows),
            groups=group_starts(rows) if several_strategies else frozenset(),
            cells=tuple(_program_row(cell) for cell in grid.cells.values()),
            notes=(
                note,
                *results.plan.suite.notes,
                *seed_notes,
                *results.flags.notes(jobs),
                *unfinished_notes("accuracies", jobs, results.standing),
            ),
            interval=levels_note(_ALONE, "rows", cells=0, missing="rows") if has_seed_levels else INTERVAL,
            flags=results.flags.listed(jobs),
            about=ABOUT,
            brief=(note, *seed_notes),
        )

    def note(self, found: Iterable[Cell], tasks: Sequence[str]) -> str:
        """Return what tables of attacks say of the accuracies in them."""
        return describe_rows(found, tasks)

    def cells(self, results: Results) -> Grid[Cell]:
        return build_cells(results)


def _accuracy_of(hits: NDArray[np.bool_]) -> Score:
    return make_score(NAME, Proportion(int(hits.sum()), len(hits)))


def build_cells(results: Results) -> Grid[Cell]:
    """Return the victims that are scored on test rows, done or not, in the suite's order.

    Among them are classifiers that were scored on test rows when they were opened.
    """
    plan, suite = results.plan, results.plan.suite
    measuring = [job for job in plan.jobs if job.what == NAME]
    labels = list(dict.fromkeys(job.parts[3] for job in measuring))
    measured_victims = {job.needs["victim"] for job in measuring}
    unmeasured = [job for job in plan.jobs if job.opening and job.key not in measured_victims]
    jobs_with_names = []
    for job in (*measuring, *(job for job in unmeasured if _was_opened_on_test(results, job))):
        encoder, task, finetune, *more = job.parts
        # Only where a suite asks for several numbers of rows does a label tell them apart.
        label = more[0] if job.measuring and len(labels) > 1 else ""
        names = {"encoder": plan.draw(encoder).encoder, "finetune": finetune, "task": task, "label": label}
        jobs_with_names.append((job, names))
    orders = {
        "encoder": suite.lineup,
        "finetune": (*(choice.label for choice in suite.finetune), AS_IS),
        "task": suite.tasks,
        "label": ("", *labels),
    }
    reading = NumberReading(ABOUT, _score_of_run, _join_seeds, partial(_values_of_rows, results), shares=True)
    cells, names_by_axis = gather_cells(results, jobs_with_names, orders, partial(Cell, read=reading))
    return Grid(results, cells, **names_by_axis)


def _was_opened_on_test(results: Results, job: Job) -> bool:
    record = results.standing.records.get(job.key)
    return record is not None and any(score.name == NAME for score in record.scores)


def _score_of_run(run: SeedRun, name: str) -> Score | None:
    """Return the accuracy of a job, with its interval."""
    if run.record is None:
        return None
    stored_score = find_score(run.record, NAME)
    return make_score(NAME, Proportion(round((stored_score.value or 0.0) * stored_score.n), stored_score.n))


def _join_seeds(seed_scores: Sequence[Score]) -> Score:
    """Return the mean over seeds. All see the same rows, but a text without a usable answer is in no denominator."""
    fewest = min(score.n for score in seed_scores)
    return mean_score([score.model_copy(update={"n": fewest}) for score in seed_scores])


def _values_of_rows(results: Results, run: SeedRun, name: str) -> Values | None:
    """Return 1 for each row that was right and 0 for the others, by place; None where a record has the share alone."""
    assert run.record is not None
    if run.job.measuring is None:
        right_bits, record = run.record.right, run.record
        if right_bits is None:
            return None
        # Where rows were drawn by the job's seed, places of two seeds are other rows, and must not be paired.
        seed_prefix = "" if len(right_bits) == record.counts.get("test_rows") else f"{run.seed}:"
        return {f"{seed_prefix}{i}": float(bit) for i, bit in enumerate(right_bits) if bit != "-"}

    def hits() -> NDArray[np.bool_]:
        (row,) = results.store.rows(run.job)
        return unpack_hits(row.names["hits"], int(row.numbers["n"] or 0))

    return read_values_by_place(results, run.job, hits)


def describe_rows(victim_cells: Iterable[Cell], tasks: Sequence[str]) -> str:
    """Say what the accuracy is, and how many of how many rows are behind it, task by task."""
    task_parts, all_cells = [], list(victim_cells)
    for task in tasks:
        records = [record for cell in all_cells if cell.task == task for record in cell.records]
        if not records:
            continue
        num_scored = format_range(find_score(record, NAME).n for record in records)
        num_rows = format_range(record.counts.get("rows", record.counts.get("test_rows", 0)) for record in records)
        task_parts.append(f"{task} {num_scored}" + (f" of {num_rows}" if num_rows != num_scored else ""))
    return f"{ABOUT.title}: {ABOUT.definition}. Rows: {'; '.join(task_parts) or 'nothing yet'}."


def _program_row(cell: Cell) -> dict[str, Any]:
    axes = ("encoder", "finetune", "task", "label") if cell.label else ("encoder", "finetune", "task")
    flags = cell.results.flags.told(cell.jobs)
    return {**cell.at(*axes), **cell.told(NAME, "seeds", "seed_sd"), "flags": flags}
