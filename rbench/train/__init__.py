"""Train encoders: one training loop, and one module for each objective (`objectives/<name>.py`).

Importing this package, or an objective for its `Options`, does not import torch. `pretrain` imports it on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rbench.train.loop import pretrain

__all__ = ["pretrain"]


def __getattr__(name: str) -> Any:
    if name != "pretrain":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rbench.train.loop import pretrain

    return pretrain
