"""Encoder + task -> victim: one module a strategy, found by its name.

A strategy module exports `Options` (pydantic, checked when the suite loads) and
`run(encoder, data, training, options, *, seed, device, progress) -> (EncoderClassifier, scores)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, a short text) as fine-tuning goes on."""


def strategy(name: str) -> ModuleType:
    """The module behind a strategy's name; ModuleNotFoundError where there is none."""
    return importlib.import_module(f"rbench.finetune.{name}")
