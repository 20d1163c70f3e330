"""Encoder + task -> victim: one module a strategy, found by its name.

A strategy module exports `Options` (pydantic, checked when the suite loads) and
`run(encoder, data, training, options, *, seed, device, progress) -> (EncoderClassifier, scores)`.

One that edits words also exports `NEEDS`, kinds of resources, and is given `resources=`, those of the suite's profile.
One whose options have an `attack` is given `generated=`: the outcomes of that attack on a cleanly fine-tuned victim,
one for each text that it is going to be trained on. Scores that are not of the validation split are in its `COUNTED`,
with the score that says of how many things they are.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from rbench.finetune._data import sample_split
from rbench.load import code

__all__ = ["Progress", "sample_split", "strategy"]

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, a short text) as fine-tuning goes on."""


def strategy(name: str) -> ModuleType:
    """The module of a strategy that is installed; SuiteError where there is none."""
    return code.find("finetune", name).open()
