"""The accuracy of victims on the test split, as tables of attacks have it beside ASR.

Attacks are often on few texts, so their clean accuracy is of few. The numbers are those of the measure `test_accuracy`.
A RUN that was made without it has none, and its tables are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rbench.schema import TEST_ACCURACY, Meaning
from rbench.tables.aggregate import Cell, Grid
from rbench.tables.cells import PLAIN
from rbench.tables.cells import Cell as AnyCell
from rbench.tables.results import Results
from rbench.tables.table import Number

HEADER = "accuracy"
PRINTED = Meaning("Accuracy, test split", "right / scored rows of the test split")
"""The scale of the column, in which nothing is marked as the best: the table is of attacks."""


@dataclass(frozen=True)
class Accuracies:
    """The accuracies on test rows of the victims of a RUN."""

    of: Mapping[tuple[str, str, str], AnyCell]
    """By encoder, strategy and task."""
    note: str = ""
    """What they are, and of how many rows; empty where there are none."""

    def there(self, task: str) -> bool:
        """Whether a victim of the task has one."""
        return any(key[2] == task for key in self.of)

    def number(self, cell: Cell | None) -> Number | None:
        """Return the entry for the victim of a cell of attacks; None where it has none."""
        own = self._of(cell)
        return own.number(TEST_ACCURACY) if own is not None else None

    def told(self, cell: Cell) -> dict[str, Any]:
        """Return the number for programs, as a field of the cell; nothing where the victim has none."""
        own = self._of(cell)
        if own is None:
            return {}
        found = own.told(TEST_ACCURACY)
        return {"scores": {TEST_ACCURACY: {name: found[name] for name in PLAIN}}}

    def _of(self, cell: Cell | None) -> AnyCell | None:
        return self.of.get((cell.encoder, cell.finetune, cell.task)) if cell is not None else None


def accuracies(grid: Grid) -> Accuracies:
    """Return the accuracies of the victims of some attacks, done or not."""
    results = grid.results
    if not _asked(results):
        return Accuracies({})
    measure = results.metrics.measure(TEST_ACCURACY)
    found = measure.cells(results)
    attacked = {(cell.encoder, cell.finetune, cell.task) for cell in grid.cells.values()}
    of: dict[tuple[str, str, str], AnyCell] = {}
    for cell in found.cells.values():  # where a suite asks for several numbers of rows, the first stands in tables
        if (key := (cell.encoder, cell.finetune, cell.task)) in attacked:
            of.setdefault(key, cell)
    return Accuracies(of, measure.note(of.values(), grid.tasks) if of else "")


def _asked(results: Results) -> bool:
    """Whether the RUN may have accuracies on test rows, so that the measure's file need be opened."""
    return any(job.what == TEST_ACCURACY or job.opening is not None for job in results.plan.jobs)
