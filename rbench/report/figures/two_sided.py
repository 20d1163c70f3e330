"""Robustness against sensitivity: who holds where the meaning holds, and moves where it moves.

A panel is an attack on a task, and a mark is a victim with the intervals of both numbers of the table `two_sided`. Up
and to the right is good. A blind victim stands below on the right: it is never fooled, and follows no edit. Encoders
whose files call them controls, such as random weights and one vector for all texts, are grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.report.figures import RunFigure, front, style
from rbench.schema import Plan
from rbench.schema.common import Strict
from rbench.tables import Results
from rbench.verdicts.cells import cells_by_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

ROBUSTNESS, SENSITIVITY = "held", "followed"


class Options(Strict):
    """What a suite may set."""

    attack: str | None = None
    """The only attack to draw; None: all."""
    task: str | None = None
    """The only task to draw; None: all."""


class TwoSidedFigure(RunFigure[Options]):
    title = "Robustness (held under the attack) against sensitivity (edits followed), with controls"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from the table `two_sided`. Raises StoreError where no victim has both numbers."""
        robustness, sensitivity = results.metrics.asked(ROBUSTNESS), results.metrics.asked(SENSITIVITY)
        cells = cells_by_name(results, robustness)
        chosen = front.Options(quality=SENSITIVITY, robustness=ROBUSTNESS, attack=options.attack, task=options.task)
        followed = cells_by_name(results, sensitivity)
        panels, _ = front.marks_by_panel(chosen, cells, lambda name: front.quality_of(name, followed))
        figure, axes = style.panels([title for title, _ in panels], columns=3, share_x=True, share_y=True)
        labels = list(dict.fromkeys(mark.label for _, marks in panels for mark in marks))
        controls = list_controls(results.plan)
        drawn: dict[str, Artist] = {}
        for axes_of_panel, (_, marks) in zip(axes, panels, strict=True):
            for mark in marks:
                muted = {"color": style.MUTED, "fillstyle": "none"} if mark.encoder in controls else {}
                index = labels.index(mark.label)
                artist = style.point(
                    axes_of_panel, mark.robustness, mark.quality, index=index, label=mark.label, **muted
                )
                drawn.setdefault(mark.label, artist)
            axes_of_panel.set(xlim=(-4, 104), ylim=(-4, 104), xlabel=style.axis(robustness.about))
        for axes_of_panel in filter(style.is_leftmost, axes):
            axes_of_panel.set_ylabel(style.axis(sensitivity.about))
        style.legend(figure, [drawn[label] for label in labels], labels)
        grey = f" Grey: controls ({', '.join(controls)})." if controls else ""
        style.note(figure, f"Bars are 95% intervals of each number by itself. Up and to the right is good.{grey}")
        return figure


def list_controls(plan: Plan) -> list[str]:
    """Return the encoders and classifiers of a plan whose files call them controls."""
    return [*dict.fromkeys(job.parts[0] for job in plan.jobs if job.entry is not None and job.entry.control)]
