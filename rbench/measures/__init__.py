"""Measures of a RUN: one module a measure, found by its name.

A measure is a table that rbench computes from what attacks and evaluations stored, such as transferability. A suite
shows it with `tables: [{metric: NAME}]`, and the command line with `rbench table RUN --metric NAME`. A measure that
asks models again has a `run`, and a suite asks for it with `evaluate: [NAME]`.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from rbench.tables import Results, Table


class Measure(Protocol):
    """What a measure's module exports. Importing it loads no torch.

    Two more exports are optional. `run(options, context)` computes what needs victims; it makes one job for each task,
    strategy, attack and seed, whose stored rows `table` reads. `VERSION` is raised when results change.
    """

    Options: type[BaseModel]
    """What a suite may set. A suite is checked against it while it loads."""

    def table(self, options: Any, results: Results) -> Table:
        """Make the table. Raises StoreError, with a remedy, where the RUN has nothing to show."""
        ...
