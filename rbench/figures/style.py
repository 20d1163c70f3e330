"""One look for all figures: sizes for papers, and colours and markers that colour-blind readers tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN = 3.3
"""Width of a column of a two-column paper, in inches."""
PAGE = 6.9
"""Width of both columns, in inches."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito (2008) without its yellow, which is too pale for lines."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers in the order of COLOURS. Their number is another's than that of LINES, so pairs do not repeat soon."""
LINES = ("-", "--", ":", "-.")


def look(index: int) -> dict[str, str]:
    """Return colour, marker and line style of the series with this index; 0, 1, 2 ... differ in all three."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[index % len(LINES)],
    }


def new(width: float = COLUMN, height: float | None = None) -> Figure:
    """Return an empty figure of this size in inches; without a height, three quarters of the width.

    It is made without pyplot, so that no window system is asked for and no global state is left.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, 0.75 * width if height is None else height), layout="constrained")
