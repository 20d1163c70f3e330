"""The options that measures share."""

from __future__ import annotations

from rbench.spec import Strict


class Plain(Strict):
    """The options of a measure that has none."""
