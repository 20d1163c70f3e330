"""What is made of a trained encoder to be looked at: one module a thing, found by its name.

A module exports `Options` (pydantic, with `split` and `num_examples`, checked when the suite loads), `OBJECTIVES`, the
training objectives whose encoders it can be made of, and `run(...) -> Built`. Importing one loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

from rbench.load import code
from rbench.spec import Outcome, Score


@dataclass(frozen=True)
class Built:
    """What was made: an outcome an example, and what can be said of all."""

    outcomes: list[Outcome]
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


def thing(name: str) -> ModuleType:
    """The module of a thing to build that is installed; SuiteError where there is none."""
    return code.find("build", name).open()
