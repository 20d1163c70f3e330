"""Attack success rate by budget: a panel for each attack and task, a step curve with its band for each encoder.

The curves are those of the measure `budget`; `rbench.score.budget` defines them. They are ours: no paper behind rbench
draws them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.measures.budget import CurveOptions, CurvePanel, build_panels
from rbench.report.figures import RunFigure, style
from rbench.score.budget import RANGE_START, BudgetKind, SuccessCurve
from rbench.tables import Results
from rbench.tables.aggregate import AttackCell, attack_grid
from rbench.tables.notes import format_range

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_AXIS: dict[BudgetKind, str] = {
    "queries": "Queries allowed",
    "words": "Words changed",
    "share": "Share of words changed (%)",
}


class BudgetFigure(RunFigure[CurveOptions]):
    title = "Attack success rate by queries or words allowed"

    def draw(self, options: CurveOptions, results: Results) -> Figure:
        """Draw from the outcomes.

        Raises StoreError where nothing is done, outcomes are missing, or a name is unknown.
        """
        attack_cells = attack_grid(results)
        panels_of_budget = build_panels(attack_cells, options)
        several_tasks = len({panel.task for panel in panels_of_budget}) > 1
        figure, all_axes = style.panels(
            [f"{panel.attack}, {panel.task}" if several_tasks else panel.attack for panel in panels_of_budget],
            columns=3,
            share_y=True,
        )
        labels = _labels_by_victim([cell for panel in panels_of_budget for cell, _ in panel.curves])
        drawn: dict[str, Artist] = {}
        for axes_of_panel, panel in zip(all_axes, panels_of_budget, strict=True):
            for cell, curve in panel.curves:
                if curve.n and not attack_cells.flags.hiding(cell.jobs):
                    label = labels[cell.encoder, cell.finetune]
                    index = list(labels.values()).index(label)
                    drawn.setdefault(label, _draw_curve(axes_of_panel, curve, panel, index, label))
                    if attack_cells.flags.of(cell.jobs):
                        top = 100 * panel.top if options.by == "share" else panel.top
                        style.flag(axes_of_panel, top, 100 * (curve.at(panel.top).value or 0), index=index)
            if options.by == "queries":
                style.log(axes_of_panel, "x")
                axes_of_panel.set_xlim(left=_left_limit(panel))
            axes_of_panel.set_ylim(0, 102)  # room for a line at 100
            axes_of_panel.set_xlabel(_AXIS[options.by])
            if style.is_leftmost(axes_of_panel):
                axes_of_panel.set_ylabel("ASR (%)")
        drawn_labels = [label for label in labels.values() if label in drawn]
        style.legend(figure, [drawn[label] for label in drawn_labels], drawn_labels)
        style.note(figure, _write_note(panels_of_budget))
        return figure


def _labels_by_victim(cells: list[AttackCell]) -> dict[tuple[str, str], str]:
    several_strategies = len({cell.finetune for cell in cells}) > 1
    return {
        (cell.encoder, cell.finetune): f"{cell.encoder}, {cell.finetune}" if several_strategies else cell.encoder
        for cell in cells
    }


def _draw_curve(axes: Axes, curve: SuccessCurve, panel: CurvePanel, index: int, label: str) -> Artist:
    """Draw one curve and its band from the start of the range to its end."""
    x = [RANGE_START[curve.by], *(step for step in curve.steps if RANGE_START[curve.by] < step < panel.top), panel.top]
    scores = [curve.at(budget) for budget in x]
    x_shown = [100 * budget for budget in x] if curve.by == "share" else x
    low, high = (
        [100 * (limit or 0) for limit in limits]
        for limits in zip(*((score.low, score.high) for score in scores), strict=True)
    )
    style.band(axes, x_shown, low, high, index=index, step="post")
    colours = {key: value for key, value in style.look(index).items() if key != "marker"}
    (line,) = axes.step(x_shown, [100 * (score.value or 0) for score in scores], where="post", label=label, **colours)
    return line


def _left_limit(panel: CurvePanel) -> float:
    """Return where the axis of queries begins: half of the fewest with which an attack succeeded."""
    return max(RANGE_START["queries"], min((step for _, curve in panel.curves for step in curve.steps), default=0) / 2)


def _write_note(panels_shown: list[CurvePanel]) -> str:
    sizes = format_range(curve.n for panel in panels_shown for _, curve in panel.curves)
    partial = sum(cell.partial for panel in panels_shown for cell, _ in panel.curves)
    sentences = f"n of a curve {sizes}; bands are Wilson 95% intervals, at each budget by itself."
    return sentences + (f" In {partial} curves some seeds are not done." if partial else "")
