"""Things made from a trained encoder for people to look at: one module a thing, found by its name.

A module exports three names. `Options` is a pydantic model with `split` and `num_examples`, checked when the suite
loads. `OBJECTIVES` are the training objectives whose encoders it takes. `run(...) -> Built` makes the thing. Importing
a module loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

from rbench.load import code
from rbench.spec import Outcome, Score


@dataclass(frozen=True)
class Built:
    """What was made: an outcome for each example, and scores and counts over all of them."""

    outcomes: list[Outcome]
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


def thing(name: str) -> ModuleType:
    """Open the module of a thing to build, by its name.

    Raises:
        SuiteError: there is no such module.
    """
    return code.find("build", name).open()
