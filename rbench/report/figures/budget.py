"""Attack success rate by budget: a panel for each attack and task, a step curve with its band for each encoder.

The curves are those of the measure `budget`; `rbench.score.budget` defines them. They are ours: no paper behind rbench
draws them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.measures.budget import Curves, Panel, panels
from rbench.report.figures import style
from rbench.score.budget import START, By, Curve
from rbench.tables import Results
from rbench.tables.aggregate import Cell, grid
from rbench.tables.notes import spanned

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Attack success rate by queries or words allowed"

_AXIS: dict[By, str] = {"queries": "Queries allowed", "words": "Words changed", "share": "Share of words changed (%)"}

Options = Curves


def draw(options: Options, results: Results) -> Figure:
    """Draw from the outcomes. Raises StoreError where nothing is done, outcomes are missing, or a name is unknown."""
    of = grid(results)
    found = panels(of, options)
    several = len({panel.task for panel in found}) > 1
    figure, axes = style.panels(
        [f"{panel.attack}, {panel.task}" if several else panel.attack for panel in found], columns=3, share_y=True
    )
    labels = _labels([cell for panel in found for cell, _ in panel.curves])
    drawn: dict[str, Artist] = {}
    for place, panel in zip(axes, found, strict=True):
        for cell, curve in panel.curves:
            if curve.n and not of.flags.hiding(cell.jobs):
                label = labels[cell.encoder, cell.finetune]
                index = list(labels.values()).index(label)
                drawn.setdefault(label, _line(place, curve, panel, index, label))
                if of.flags.of(cell.jobs):
                    top = 100 * panel.top if options.by == "share" else panel.top
                    style.flag(place, top, 100 * (curve.at(panel.top).value or 0), index=index)
        if options.by == "queries":
            style.log(place, "x")
            place.set_xlim(left=_begin(panel))
        place.set_ylim(0, 102)  # room for a line at 100
        place.set_xlabel(_AXIS[options.by])
        if style.is_leftmost(place):
            place.set_ylabel("ASR (%)")
    known = [label for label in labels.values() if label in drawn]
    style.legend(figure, [drawn[label] for label in known], known)
    style.note(figure, _note(found))
    return figure


def _labels(cells: list[Cell]) -> dict[tuple[str, str], str]:
    several = len({cell.finetune for cell in cells}) > 1
    return {
        (cell.encoder, cell.finetune): f"{cell.encoder}, {cell.finetune}" if several else cell.encoder for cell in cells
    }


def _line(axes: Axes, curve: Curve, panel: Panel, index: int, label: str) -> Artist:
    """Draw one curve and its band from the start of the range to its end."""
    x = [START[curve.by], *(step for step in curve.steps if START[curve.by] < step < panel.top), panel.top]
    scores = [curve.at(budget) for budget in x]
    shown = [100 * budget for budget in x] if curve.by == "share" else x
    low, high = ([100 * (end or 0) for end in ends] for ends in zip(*((s.low, s.high) for s in scores), strict=True))
    style.band(axes, shown, low, high, index=index, step="post")
    colours = {key: value for key, value in style.look(index).items() if key != "marker"}
    (line,) = axes.step(shown, [100 * (s.value or 0) for s in scores], where="post", label=label, **colours)
    return line


def _begin(panel: Panel) -> float:
    """Return where the axis of queries begins: half of the fewest with which an attack succeeded."""
    return max(START["queries"], min((step for _, curve in panel.curves for step in curve.steps), default=0) / 2)


def _note(found: list[Panel]) -> str:
    sizes = spanned(curve.n for panel in found for _, curve in panel.curves)
    partial = sum(cell.partial for panel in found for cell, _ in panel.curves)
    said = f"n of a curve {sizes}; bands are Wilson 95% intervals, at each budget by itself."
    return said + (f" In {partial} curves some seeds are not done." if partial else "")
