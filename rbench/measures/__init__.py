"""Measures of a RUN: one module a measure, found by its name.

A measure is a table that rbench computes from what attacks and evaluations stored, such as transferability. A suite
shows it with `tables: [{metric: NAME}]`, and the command line with `rbench table RUN --metric NAME`. A measure that
asks models again has a `run`, and a suite asks for it with `evaluate: [NAME]`.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from rbench.measures._context import Asked, EncoderContext, MeasureContext
from rbench.measures._stored import MeasuredJob, measured
from rbench.spec import MeasuredRow
from rbench.tables import Results, Table

__all__ = ["Asked", "EncoderContext", "Measure", "MeasureContext", "MeasuredJob", "MeasuredRow", "measured"]


class Measure(Protocol):
    """What a measure's module exports. Importing it loads no torch.

    More exports are optional. `run(options, context)` returns a sequence of `MeasuredRow`. It computes what needs
    victims or rows of the task, in one job for each task, attack and seed, and `table` reads what the job stored
    (`measured`). `OF = "tasks"` makes it one job for each task instead, without victims. `check(options, suite)` says
    in a sentence what is wrong with the options in this suite, or returns None. `VERSION` is raised when results
    change.

    `OF = "encoders"` makes it one job for each encoder and task, whose `run` gets an `EncoderContext`. Then `tasks(
    options)` returns the names of the tasks that it reads, each with the options on this task alone. `splits(options,
    task)` returns the splits of the task without which it cannot be computed, and raises ValueError, with a sentence,
    for a task that it is not for. `NEEDS` lists kinds of resources.
    """

    Options: type[BaseModel]
    """What a suite may set. A suite is checked against it while it loads."""

    def table(self, options: Any, results: Results) -> Table:
        """Make the table. Raises StoreError, with a remedy, where the RUN has nothing to show."""
        ...
