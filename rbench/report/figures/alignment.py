"""Alignment against uniformity of sentence vectors (RobustSentEmbed, Figure 3).

A point is an encoder, with 95% intervals. The best are at the lower left. The numbers are those of the measure
`alignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from rbench.measures.alignment import build_cells
from rbench.report.figures import RunFigure, style
from rbench.schema import Strict
from rbench.tables import Results
from rbench.tables.table import Number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


class Options(Strict):
    """What is drawn."""

    encoders: tuple[str, ...] = ()
    """Encoders to show; empty: all."""


class _Point(NamedTuple):
    """An encoder on a task, with both numbers."""

    row: int
    """The number of the encoder, which decides its look in all panels."""
    label: str
    uniformity: Number
    alignment: Number


class AlignmentFigure(RunFigure[Options]):
    title = "Alignment against uniformity of sentence vectors (RobustSentEmbed, Figure 3)"
    reference = "asl2024robustsentembed"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw a panel for each task. Raises StoreError where no encoder has both numbers."""
        from matplotlib.ticker import MaxNLocator

        cells = build_cells(results, planned=False)
        rows = [row for row in cells.rows if not options.encoders or row[0] in options.encoders]
        points: dict[str, list[_Point]] = {}
        for task in cells.tasks:
            for i, row in enumerate(rows):
                uniformity, alignment = cells.number(row, task, "uniformity"), cells.number(row, task, "alignment")
                if _has_value(uniformity) and _has_value(alignment):
                    point = _Point(i, " ".join(cells.names(row)), uniformity, alignment)
                    points.setdefault(task, []).append(point)
        figure, panels = style.panels(list(points) if len(points) != 1 else [""], columns=3)
        artists: dict[str, Artist] = {}
        for axes, task_points in zip(panels, points.values(), strict=True):
            for point in task_points:
                artists[point.label] = style.point(
                    axes, point.uniformity, point.alignment, index=point.row, label=point.label
                )
            axes.xaxis.set_major_locator(MaxNLocator(5))  # its numbers are long
            axes.set_xlabel("Uniformity")
            axes.set_ylabel("Alignment")
        style.legend(figure, list(artists.values()), list(artists))
        # All points of a task have the same pairs and texts.
        firsts = {task: task_points[0] for task, task_points in points.items()}
        sizes = [f"{task}: {first.alignment.n} pairs, {first.uniformity.n} texts" for task, first in firsts.items()]
        style.note(figure, f"{'; '.join(sizes)}. Low is good on both axes. Bars: 95% intervals over texts.")
        return figure


def _has_value(number: Number | None) -> TypeGuard[Number]:
    return number is not None and number.value is not None
