"""Fine-tuning strategies: each makes a victim of an encoder and a task. One file each, found by its name.

A strategy is a subclass of `FinetuneStrategy`. Modules whose names begin with an underscore are shared by several
strategies, or are parts of one.
"""

from __future__ import annotations

from typing import Any

from rbench.config import code
from rbench.train.finetune._base import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._data import sample_split
from rbench.train.options import Progress

__all__ = ["FinetuneContext", "FinetuneStrategy", "Finetuned", "Progress", "sample_split", "strategy"]


def strategy(name: str) -> FinetuneStrategy[Any]:
    """Return an installed strategy. Raises SuiteError where there is none of this name."""
    opened: FinetuneStrategy[Any] = code.find("finetune", name).open()
    return opened
