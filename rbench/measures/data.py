"""Statistics of the data (ADCL, appendix B, Table 5): classes, mean length, and sizes of splits.

The paper prints a mean length without its unit; here it is the mean number of words, as white space separates them, of
all columns of the rows that are used, and by split. Sizes are of rows as they are used: validation rows may be taken
from the published training rows, and rows that repeat test texts are left out.
"""

from __future__ import annotations

from itertools import chain
from statistics import fmean

from rbench.measures import Measure, MeasureContext, MeasuredRow
from rbench.measures._stored import jobs_of_measure, measured
from rbench.schema.extension import NoOptions
from rbench.tables import Results, Table
from rbench.tables.notes import unfinished_notes
from rbench.tables.table import Meaning, Number, TableEntry

VERSION = 1
USES = ()
NAME = "data"
SPLITS = ("train", "validation", "test")


class DataStatistics(Measure[NoOptions]):
    """Statistics of the data (ADCL, appendix B, Table 5): classes, mean length, and sizes of splits."""

    title = "Statistics of the data: classes, mean length, sizes (ADCL, Table 5)"
    reads = "tasks"

    def run(self, options: NoOptions, context: MeasureContext) -> list[MeasuredRow]:
        """Return a row for each split, and one for all of them."""
        words: dict[str, list[int]] = {}
        for split in SPLITS:
            if split in context.splits:
                words[split] = [len(" ".join(example.texts).split()) for example in context.rows(split)]
        # The lengths of all rows together: a mean of the splits' means would count small splits as much as large ones.
        words["all"] = list(chain.from_iterable(words.values()))
        classes = float(len(context.task.labels)) if context.task.labels else None
        return [
            MeasuredRow(
                names={"split": split},
                numbers={"rows": len(lengths), "mean_words": fmean(lengths) if lengths else None, "classes": classes},
            )
            for split, lengths in words.items()
        ]

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make one row for each task."""
        rows: list[tuple[TableEntry, ...]] = []
        cells = []
        for done in measured(results, NAME, options):
            task = done.spec.task.name
            numbers = {row.names["split"]: row.numbers for row in done.rows}
            sizes = [int(numbers[split]["rows"] or 0) if split in numbers else None for split in SPLITS]
            overall = numbers["all"]
            classes = int(overall["classes"]) if overall["classes"] is not None else ""
            mean_words = Number(overall["mean_words"], percent=False, n=int(overall["rows"] or 0))
            rows.append((task, classes, mean_words, *sizes))
            cells += [{"task": task, "split": split, **split_numbers} for split, split_numbers in numbers.items()]
        asked = jobs_of_measure(results, NAME)
        return Table(
            metric=NAME,
            header=("Task", "Classes", "Mean words", *(split.capitalize() for split in SPLITS)),
            rows=tuple(rows),
            cells=tuple(cells),
            notes=(
                "Mean words: of all rows, split at white space, all columns of a row together. Sizes are of rows as "
                "used.",
                *results.plan.suite.notes,
                *unfinished_notes("jobs", asked, results.standing),
            ),
            about=Meaning("Data", "sizes of the tasks as they are used", percent=False, undefined="no rows"),
        )
