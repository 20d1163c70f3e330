"""Measures of a RUN: one module a measure, found by its name, with one subclass of `Measure`.

A measure is a table that rbench computes from what attacks and evaluations stored, such as transferability. A suite
shows it with `tables: [{metric: NAME}]`, and the command line with `rbench table RUN --metric NAME`. A measure that
asks models again has a `run`, and a suite asks for it with `evaluate: [NAME]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rbench.measures._base import Measure
from rbench.measures._rows import Column, Mean, Row, Share
from rbench.schema import MeasuredRow

if TYPE_CHECKING:
    from rbench.measures._context import (
        EncoderContext,
        MeasureContext,
        Measured,
        TrainedContext,
        VictimContext,
        VictimRef,
    )
    from rbench.measures._stored import MeasuredJob, measured

__all__ = [
    "Column",
    "EncoderContext",
    "Mean",
    "Measure",
    "MeasureContext",
    "Measured",
    "MeasuredJob",
    "MeasuredRow",
    "Row",
    "Share",
    "TrainedContext",
    "VictimContext",
    "VictimRef",
    "measured",
]


_STORED = ("MeasuredJob", "measured")
"""The names above that `_stored` defines. `_context` defines the others that are not imported above."""


def __getattr__(name: str) -> Any:
    """Import the module of a name at its first use, because a run without measures uses neither of the two."""
    if name not in __all__:
        raise AttributeError(f"module 'rbench.measures' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rbench.measures.{'_stored' if name in _STORED else '_context'}"), name)
