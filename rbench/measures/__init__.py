"""Measures of a RUN: one module a measure, found by its name.

A measure is a table that rbench computes from what attacks and evaluations stored, such as transferability. A suite
shows it with `tables: [{metric: NAME}]`, and the command line with `rbench table RUN --metric NAME`. A measure that
asks models again has a `run`, and a suite asks for it with `evaluate: [NAME]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from rbench.schema import MeasuredRow

if TYPE_CHECKING:
    from rbench.measures._context import Asked, EncoderContext, MeasureContext, Measured, TrainedContext, VictimContext
    from rbench.measures._stored import MeasuredJob, measured
    from rbench.tables import Results, Table

__all__ = [
    "Asked",
    "EncoderContext",
    "Measure",
    "MeasureContext",
    "Measured",
    "MeasuredJob",
    "MeasuredRow",
    "TrainedContext",
    "VictimContext",
    "measured",
]


_STORED = ("MeasuredJob", "measured")
"""The names above that `_stored` defines. `_context` defines the others, except for `MeasuredRow`."""


def __getattr__(name: str) -> Any:
    """Import the module of a name at its first use, because a run without measures uses neither of the two."""
    if name not in __all__:
        raise AttributeError(f"module 'rbench.measures' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rbench.measures.{'_stored' if name in _STORED else '_context'}"), name)


class Measure(Protocol):
    """What a measure's module exports. Importing it loads no torch.

    More exports are optional. `run(options, context)` returns a sequence of `MeasuredRow`, or `Measured`; `OF` says
    what it is given, and so how many jobs there are (`rbench.schema.MeasureJob`): by default all victims and what an
    attack made of their texts (`MeasureContext`; also for `tasks`, without victims), or `EncoderContext`,
    `VictimContext`, `TrainedContext`. `table` reads what the job stored (`measured`), and `STORES` says whether
    that is rows. `check(options, suite)` says in a sentence what is wrong with the options in this suite, or
    returns None. `NETWORK` says that it reads gradients or the inside of a network, which an encoder behind an endpoint
    does not have. `FILES` says which options list names of files, and of which kind: `{"kinds": "noise"}`. `VERSION` is
    raised when results change. With the option `split` a measure reads that split alone.

    With `OF = "encoders"`, `tasks(options)` returns the names of the tasks that it reads, each with the options on this
    task alone; `splits(options, task)` returns the splits of the task without which it cannot be computed, and raises
    ValueError, with a sentence, for a task that it is not for; and `NEEDS` lists kinds of resources. With
    `OF = "trainings"`, `OBJECTIVES` lists those that may have trained the encoder.

    `examples(prepared, job)` returns how much a job reads, and `TOLD` is what `rbench plan` says of it. `REQUIRED`
    names the scores of every complete record, and `unlike(record, lines)` says which of its numbers are not those of
    the lines.
    """

    Options: type[BaseModel]
    """What a suite may set. A suite is checked against it while it loads."""

    def table(self, options: Any, results: Results) -> Table:
        """Make the table. Raises StoreError, with a remedy, where the RUN has nothing to show."""
        ...
