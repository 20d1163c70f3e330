"""The options that measures share."""

from __future__ import annotations

from rbench.schema import Strict


class Plain(Strict):
    """The options of a measure that has none."""
