"""Figures of a RUN: one module a figure, found by its name.

`rbench figure RUN --kind NAME` draws one, and `figures: [NAME]` in a suite draws it beside the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawing(Protocol):
    """What a figure's module exports. Importing it loads neither torch nor matplotlib."""

    Options: type[BaseModel]
    """What a suite may set. A suite is checked against it while it loads."""

    def draw(self, options: Any, results: Results) -> Figure:
        """Draw from what the RUN stores. Make the figure with `rbench.report.figures.style.new`.

        Raises StoreError, with a remedy, where the RUN has nothing to draw.
        """
        ...
