"""Training objectives, one file each, found by its name: a subclass of `TrainingObjective`.

Its `build` returns an `Objective`, or a `Fitted` if the result is computed without training steps. A module
here imports torch and transformers only inside functions, because options are validated when a suite is loaded.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from rbench.config import code
from rbench.train.objectives._base import TrainingObjective
from rbench.train.objectives._contrastive import ContrastiveTraining
from rbench.train.objectives._trained import (
    Encoding,
    Fitted,
    Objective,
    PacedObjective,
    PreparedObjective,
    ProbedObjective,
)

__all__ = [
    "ContrastiveTraining",
    "Encoding",
    "Fitted",
    "Objective",
    "PacedObjective",
    "PreparedObjective",
    "ProbedObjective",
    "TrainingObjective",
    "find",
    "option_defaults",
]


def find(name: str) -> TrainingObjective[Any]:
    """Return an installed objective. SuiteError for an unknown name."""
    objective: TrainingObjective[Any] = code.find("objectives", name).open()
    return objective


def option_defaults(options: type[BaseModel]) -> dict[str, Any]:
    """Return the defaults of an objective's options as plain data; "required" for options without a default."""
    required = {name: "required" for name, field in options.model_fields.items() if field.is_required()}
    return {**options.model_construct().model_dump(), **required}
