"""Fine-tuning strategies: each makes a victim of an encoder and a task.

A strategy is a module that is found by its name and exports what `Strategy` says: `Options` and `run`. Modules whose
names begin with an underscore are shared by several strategies, or are parts of one.
"""

from __future__ import annotations

from typing import Any

from rbench.finetune._context import FinetuneContext, Finetuned, Progress, Strategy
from rbench.finetune._data import sample_split
from rbench.load import code

__all__ = ["FinetuneContext", "Finetuned", "Progress", "Strategy", "sample_split", "strategy"]


def strategy(name: str) -> Strategy:
    """The module of an installed strategy; raises SuiteError where there is none of this name."""
    module: Any = code.find("finetune", name).open()
    return module  # type: ignore[no-any-return]
