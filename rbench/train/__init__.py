"""Training encoders of our own: one loop, and one module an objective (`objectives/<name>.py`).

Importing this package, or an objective for its `Options`, imports no torch; `pretrain` does when it is first asked for.
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
