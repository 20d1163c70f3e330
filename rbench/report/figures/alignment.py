"""Alignment against uniformity of sentence vectors (RobustSentEmbed, Figure 3).

A point is an encoder, with 95% intervals. The best are at the lower left. The numbers are those of the measure
`alignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.errors import StoreError
from rbench.measures.alignment import NAME, cells
from rbench.report.figures import style
from rbench.schema import Strict
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

TITLE = "Alignment against uniformity of sentence vectors (RobustSentEmbed, Figure 3)"
REFERENCE = "asl2024robustsentembed"


class Options(Strict):
    """What is drawn."""

    encoders: tuple[str, ...] = ()
    """Encoders to show; empty: all."""


def draw(options: Options, results: Results) -> Figure:
    """Draw a panel for each task. Raises StoreError where no encoder has both numbers."""
    from matplotlib.ticker import MaxNLocator

    found = cells(results, planned=False)
    rows = [row for row in found.rows if not options.encoders or row[0] in options.encoders]
    both = {
        (task, row): (found.number(row, task, "uniformity"), found.number(row, task, "alignment"))
        for task in found.tasks
        for row in rows
    }
    points = {key: pair for key, pair in both.items() if all(one is not None and one.value is not None for one in pair)}
    if not points:
        raise StoreError(
            f"{results.root} has no encoder with both numbers to draw; `rbench table RUN --metric {NAME}` shows what "
            "there is."
        )
    tasks = [task for task in found.tasks if any(of == task for of, _ in points)]
    figure, panels = style.panels(tasks if len(tasks) > 1 else [""], columns=3)
    shown: dict[str, Artist] = {}
    for axes, task in zip(panels, tasks, strict=True):
        for i, row in enumerate(rows):
            if (task, row) in points:
                across, up = points[task, row]
                assert across is not None and up is not None
                label = " ".join(found.names(row))
                shown[label] = style.point(axes, across, up, index=i, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(5))  # its numbers are long
        axes.set_xlabel("Uniformity")
        axes.set_ylabel("Alignment")
    style.legend(figure, list(shown.values()), list(shown))
    sizes = "; ".join(
        f"{task}: {points[key][1].n} pairs, {points[key][0].n} texts"  # type: ignore[union-attr]
        for task in tasks
        for key in [next(key for key in points if key[0] == task)]
    )
    style.note(figure, f"{sizes}. Low is good on both axes. Bars: 95% intervals over texts.")
    return figure
