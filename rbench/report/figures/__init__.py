"""Figures of a RUN, one file each, found by its name: a subclass of `RunFigure`.

`rbench figure RUN --kind NAME` draws one, and `figures: [NAME]` in a suite draws it beside the tables.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel

from rbench.schema.extension import Extension
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

O = TypeVar("O", bound=BaseModel)  # noqa: E741


class RunFigure(Extension[O]):
    """A drawing of what a RUN stores. Importing its file loads neither torch nor matplotlib."""

    guide: ClassVar[str] = "docs/guide-add-a-figure.md"

    @abstractmethod
    def draw(self, options: Any, results: Results) -> Figure:
        """Draw from what the RUN stores. Make the figure with `rbench.report.figures.style.panels`.

        Raises StoreError where the RUN has nothing to draw, as `panels` does for no panel.
        """
