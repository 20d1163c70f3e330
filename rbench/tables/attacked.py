"""Reads the outcomes of a RUN's attacks, cell by cell, for measures and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rbench.schema import Outcome
from rbench.tables.aggregate import Cell, grid
from rbench.tables.results import Results, Run


@dataclass(frozen=True)
class AttackedSample:
    """The outcomes of one attack job that is complete, in the order of the store."""

    cell: Cell
    """Names the attack, encoder, strategy and task."""
    run: Run
    """The job, with its seed and training seed."""
    outcomes: tuple[Outcome, ...]
    """Without texts where the RUN keeps none."""


def attacked(results: Results) -> Iterator[AttackedSample]:
    """Yield the complete attack jobs on test texts, cell by cell in the order of tables; one is in memory at a time.

    Raises StoreError where the suite asks for no attacks.
    """
    for cell in grid(results).cells.values():
        for run in cell.runs:
            if run.tally is not None:
                yield AttackedSample(cell, run, tuple(results.store.outcomes(run.job)))
