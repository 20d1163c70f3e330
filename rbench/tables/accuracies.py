"""The accuracy of victims on the test split, as tables of attacks have it beside ASR.

Attacks are often on few texts, so their clean accuracy is of few. The numbers are those of the measure `test_accuracy`.
A RUN that was made without it has none, and its tables are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rbench.schema import TEST_ACCURACY, Meaning
from rbench.tables.aggregate import AttackCell, AttackGrid
from rbench.tables.cells import NUMBER_FIELDS
from rbench.tables.cells import Cell as AnyCell
from rbench.tables.results import Results
from rbench.tables.table import Number

ACCURACY_HEADER = "accuracy"
ACCURACY_MEANING = Meaning("Accuracy, test split", "right / scored rows of the test split")
"""The scale of the column, in which nothing is marked as the best: the table is of attacks."""


@dataclass(frozen=True)
class VictimAccuracies:
    """The accuracies on test rows of the victims of a RUN."""

    of: Mapping[tuple[str, str, str], AnyCell]
    """By encoder, strategy and task."""
    note: str = ""
    """What they are, and of how many rows; empty where there are none."""

    def there(self, task: str) -> bool:
        """Whether a victim of the task has one."""
        return any(key[2] == task for key in self.of)

    def number(self, cell: AttackCell | None) -> Number | None:
        """Return the entry for the victim of a cell of attacks; None where it has none."""
        accuracy_cell = self._of(cell)
        return accuracy_cell.number(TEST_ACCURACY) if accuracy_cell is not None else None

    def told(self, cell: AttackCell) -> dict[str, Any]:
        """Return the number for programs, as a field of the cell; nothing where the victim has none."""
        accuracy_cell = self._of(cell)
        if accuracy_cell is None:
            return {}
        fields = accuracy_cell.told(TEST_ACCURACY)
        return {"scores": {TEST_ACCURACY: {name: fields[name] for name in NUMBER_FIELDS}}}

    def _of(self, cell: AttackCell | None) -> AnyCell | None:
        return self.of.get((cell.encoder, cell.finetune, cell.task)) if cell is not None else None


def read_accuracies(grid: AttackGrid) -> VictimAccuracies:
    """Return the accuracies of the victims of some attacks, done or not."""
    results = grid.results
    if not _may_have_accuracies(results):
        return VictimAccuracies({})
    measure = results.metrics.measure(TEST_ACCURACY)
    measured = measure.cells(results)
    attacked = {(cell.encoder, cell.finetune, cell.task) for cell in grid.cells.values()}
    by_victim: dict[tuple[str, str, str], AnyCell] = {}
    for cell in measured.cells.values():
        key = (cell.encoder, cell.finetune, cell.task)
        if key in attacked:
            # Where a suite asks for several numbers of rows, tables show the first.
            by_victim.setdefault(key, cell)
    return VictimAccuracies(by_victim, measure.note(by_victim.values(), grid.tasks) if by_victim else "")


def _may_have_accuracies(results: Results) -> bool:
    """Whether the RUN may have accuracies on test rows, so that the measure's file need be opened."""
    return any(job.what == TEST_ACCURACY or job.opening is not None for job in results.plan.jobs)
