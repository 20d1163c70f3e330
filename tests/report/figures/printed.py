"""What holds for every figure that is drawn for a place of a given width in a paper."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from rbench.report.figures import style
from rbench.report.figures.style import FigureSheet, printing
from rbench.tables.table import FLAGGED

WIDTHS = {"column": 219.0, "page": 455.0, "200": 200.0}
"""Widths as they are asked, and in points of TeX."""


def print_figure(draw: Callable[[], Figure], width: str) -> tuple[Figure, FigureSheet]:
    """Draw for a width, and assert that the figure has it and can be read there."""
    sheet = FigureSheet.asked(width)
    with style.applied(sheet=sheet):
        drawn = draw()
        style.fit(drawn)
    buffer = io.BytesIO()
    style.save(drawn, buffer, "pdf")
    (box,) = re.findall(rb"/MediaBox \[ ?([\d. ]+?) ?\]", buffer.getvalue())
    left, _, right, _ = map(float, box.split())
    assert abs((right - left) * 72.27 / 72 - WIDTHS[width]) < 0.5
    drawn.draw_without_rendering()
    texts = printing.shown_texts(drawn)
    sizes = {text.get_text(): text.get_fontsize() for text in drawn.findobj(Text) if text.get_text().strip()}
    assert {text: size for text, size in sizes.items() if not 7 <= size <= 9} == {}
    boxes = [(text.get_text(), within(text)) for text in texts if text.get_text() != FLAGGED]
    page = drawn.bbox.padded(drawn.dpi / 72)
    assert [text for text, box in boxes if not (page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1))] == []
    boxes += [("legend", legend.get_window_extent()) for legend in drawn.legends]
    entries = {text.get_text() for legend in drawn.legends for text in legend.get_texts()}
    covered = [
        (one, other)
        for (one, first), (other, second) in combinations(boxes, 2)
        if first.overlaps(second) and not ("legend" in (one, other) and entries & {one, other})
    ]
    assert covered == []
    return drawn, sheet


def within(text: Text) -> Bbox:
    """The box of a text, less a point at each side, by which it is larger than its letters."""
    box: Any = text.get_window_extent()
    point = text.figure.dpi / 72 if text.figure is not None else 1.0
    return Bbox.from_extents(box.x0 + point, box.y0 + point, box.x1 - point, box.y1 - point)
