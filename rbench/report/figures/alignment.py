"""Alignment against uniformity of sentence vectors (RobustSentEmbed, Figure 3).

A point is an encoder, with 95% intervals. The best are at the lower left. The numbers are those of the measure
`alignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.measures.alignment import build_cells
from rbench.report.figures import RunFigure, style
from rbench.schema import Strict
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


class Options(Strict):
    """What is drawn."""

    encoders: tuple[str, ...] = ()
    """Encoders to show; empty: all."""


class AlignmentFigure(RunFigure[Options]):
    title = "Alignment against uniformity of sentence vectors (RobustSentEmbed, Figure 3)"
    reference = "asl2024robustsentembed"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw a panel for each task. Raises StoreError where no encoder has both numbers."""
        from matplotlib.ticker import MaxNLocator

        alignment_cells = build_cells(results, planned=False)
        rows = [row for row in alignment_cells.rows if not options.encoders or row[0] in options.encoders]
        number_pairs = {
            (task, row): (
                alignment_cells.number(row, task, "uniformity"),
                alignment_cells.number(row, task, "alignment"),
            )
            for task in alignment_cells.tasks
            for row in rows
        }
        points = {
            key: pair
            for key, pair in number_pairs.items()
            if all(number is not None and number.value is not None for number in pair)
        }
        tasks = [task for task in alignment_cells.tasks if any(task_of_point == task for task_of_point, _ in points)]
        figure, panels = style.panels(tasks if len(tasks) != 1 else [""], columns=3)
        artists: dict[str, Artist] = {}
        for axes, task in zip(panels, tasks, strict=True):
            for i, row in enumerate(rows):
                if (task, row) in points:
                    across, up = points[task, row]
                    assert across is not None and up is not None
                    label = " ".join(alignment_cells.names(row))
                    artists[label] = style.point(axes, across, up, index=i, label=label)
            axes.xaxis.set_major_locator(MaxNLocator(5))  # its numbers are long
            axes.set_xlabel("Uniformity")
            axes.set_ylabel("Alignment")
        style.legend(figure, list(artists.values()), list(artists))
        sizes = "; ".join(
            f"{task}: {points[key][1].n} pairs, {points[key][0].n} texts"  # type: ignore[union-attr]
            for task in tasks
            for key in [next(key for key in points if key[0] == task)]
        )
        style.note(figure, f"{sizes}. Low is good on both axes. Bars: 95% intervals over texts.")
        return figure
