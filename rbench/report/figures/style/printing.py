"""Figures for a place of a given width in a paper: letters that can be read there, and nothing that is cut or covered.

A figure drawn for a `FigureSheet` is exactly as wide as the sheet, so LaTeX does not scale it, and its letters keep
their size. Texts are measured with the font itself, because a guess by the number of letters is wrong for narrow
places.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rbench.errors import StoreError
from rbench.tables import latex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

WIDTHS = {"column": latex.COLUMN, "page": latex.PAGE}
"""Widths by name, in points of TeX: those of tables. They are ACL's; IEEE's are 15% wider."""
INCH = 72.27
"""Points of TeX in an inch; `\\the\\columnwidth` is in these."""
SMALL, NORMAL = 7.0, 7.5
"""Sizes of letters: of legends and of all else. In a place that is 15% wider they are still below nine points."""
SETTINGS: dict[str, Any] = {"font.size": NORMAL, "axes.titlesize": NORMAL, "legend.fontsize": SMALL}
"""What a sheet changes in the settings of all figures."""
LEAST_WIDTH = 1.55
"""The least width of a panel with axes, in inches, unless the figure would be too tall."""
_NARROWEST, _LOWEST = 1.35, 1.2
"""Width and height of a panel where there are many, in inches."""
TALLEST_FIGURE = 8.8
"""Inches that a figure may be tall, so that it fits a tall page with its caption."""
_COMFORTABLE = 6.0
"""Inches beyond which panels become lower, so that it fits a page of LaTeX's class article, whose text is 7.6 high."""
_LINE = 1.2
"""Height of a line of text, in sizes of its letters."""
_ROUNDS = 6


@dataclass
class FigureSheet:
    """The place for which a figure is drawn."""

    width: float
    """In points of TeX."""
    name: str
    """As it was asked: `column`, or `200pt`. It is a part of the file's name."""
    caption: list[str] = field(default_factory=list)
    """Sentences that the figure would have below it, and that its caption has instead."""

    @property
    def inches(self) -> float:
        """The width in inches."""
        return self.width / INCH

    @classmethod
    def asked(cls, width: str | float) -> FigureSheet:
        """Return the sheet of a width: `column`, `page`, or points. Raises StoreError for any other."""
        if width in WIDTHS:
            return cls(WIDTHS[str(width)], str(width))
        try:
            points = float(str(width).removesuffix("pt"))
        except ValueError:
            points = math.nan
        if not 150 <= points <= 1000:
            raise StoreError(
                f"--width {width}: expected column ({latex.COLUMN:g} points), page ({latex.PAGE:g}), or 150 to 1000 "
                "points, as \\the\\columnwidth prints them"
            )
        return cls(points, f"{points:g}pt")


_SHEET: ContextVar[FigureSheet | None] = ContextVar("sheet", default=None)


def current_sheet() -> FigureSheet | None:
    """Return the sheet for which figures are drawn now; None: they have sizes of their own."""
    return _SHEET.get()


@contextmanager
def drawing_for(sheet_to_use: FigureSheet | None) -> Iterator[None]:
    """Draw for this sheet inside."""
    token = _SHEET.set(sheet_to_use)
    try:
        yield
    finally:
        _SHEET.reset(token)


# ------------------------------------------------------------------------------------------------------------- texts


def lines(text: str, letters: int, *, within_words: bool = False) -> str:
    """Break a text into lines of some letters: between words, and in names of several options between these.

    Args:
        text: the text.
        letters: the most letters of a line.
        within_words: whether a word that is longer is broken anywhere; otherwise its line is longer.
    """
    breakable = (
        re.sub(r"([\[,=_-])(?=\w)", "\\1\u200b", text) if max(map(len, text.split()), default=0) > letters else text
    )
    # A zero-width space marks where a name may break; `textwrap` breaks at the blank behind it.
    wrapped = textwrap.wrap(breakable.replace("\u200b", "\u200b "), letters, break_long_words=within_words)
    return "\n".join(wrapped).replace("\u200b ", "").replace("\u200b", "")


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = SMALL) -> float:
    """Return the width of a text of one or several lines, in inches, in letters of this size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size)
    measured = text_to_path.get_text_width_height_descent
    return max((float(measured(line, font, ismath=False)[0]) / 72 for line in text.split("\n") if line), default=0.0)


def text_height(text: str, size: float = SMALL) -> float:
    """Return the height of a text of one or several lines, in inches."""
    return (text.count("\n") + 1) * _LINE * size / 72


def wrap_text(text: str, inches: float, size: float = SMALL) -> str:
    """Break a text into lines that are at most so wide, within words only where nothing else helps."""
    text = " ".join(text.split())
    if text_width(text, size) <= inches:
        return text
    for within_words in (False, True):
        for letters in range(min(len(text), int(inches / (0.3 * size / 72))), 4, -1):
            broken = lines(text, letters, within_words=within_words)
            if text_width(broken, size) <= inches:
                return broken
    return lines(text, 5, within_words=True)


def legend_columns(labels: Sequence[str], inches: float) -> tuple[int, float]:
    """Return how many columns of a legend have room in this width, and how tall it is then, in inches."""
    sample = 4.8 * SMALL / 72  # the line, the space after it, and the space between columns
    for columns in range(max(1, len(labels)), 0, -1):
        groups = [list(group) for group in np.array_split(np.array(labels, dtype=object), columns)]
        if columns == 1 or sum(sample + max(map(text_width, group)) for group in groups if group) <= inches:
            break
    tallest = max((sum(text_height(label) + 0.5 * SMALL / 72 for label in group) for group in groups), default=0.0)
    return columns, tallest + SMALL / 72


# ------------------------------------------------------------------------------------------------------------ panels


def side_by_side(count: int, most_columns: int, least: float) -> int:
    """Return how many panels of a least width, in inches, lie side by side on the sheet."""
    sheet_now = current_sheet()
    assert sheet_now is not None
    return max(1, min(count, most_columns, int(sheet_now.inches / least)))


def arrange_panels(titles: Sequence[str], most_columns: int, height: float, least: float) -> tuple[int, float]:
    """Return how many panels lie side by side, and how tall their figure is, in inches.

    Raises StoreError where it would be taller than a page.
    """
    sheet_now = current_sheet()
    assert sheet_now is not None
    columns = side_by_side(len(titles), most_columns, least)
    if math.ceil(len(titles) / columns) * height > TALLEST_FIGURE:
        columns = side_by_side(len(titles), most_columns, min(least, _NARROWEST))
    rows = math.ceil(len(titles) / columns)
    figure_height = rows * min(height, max(_LOWEST, _COMFORTABLE / rows))
    check_height(figure_height)
    wrapped_titles = [wrap_text(title, title_room(sheet_now.inches / columns), NORMAL) for title in titles]
    extra_lines = sum(
        max(title.count("\n") for title in wrapped_titles[row * columns : (row + 1) * columns]) for row in range(rows)
    )
    return columns, figure_height + extra_lines * _LINE * NORMAL / 72


def check_height(inches: float) -> None:
    """Raise StoreError where a figure would be taller than a page."""
    sheet_now = current_sheet()
    if sheet_now is not None and inches > TALLEST_FIGURE + 0.01:
        raise StoreError(
            f"at {sheet_now.width:g} points the figure would be {inches:.0f} inches tall, more than a page. Draw it "
            "wider (--width page), or a part of it: with --option (rbench list figures NAME) or --only"
        )


def title_room(inches: float, *, numbers: bool = True) -> float:
    """Return how wide the title of a panel may be: it does not stand above the numbers beside it, if there are any."""
    return max(0.8, inches - (0.55 if numbers else 0.15))


# --------------------------------------------------------------------------------------------------------------- fit


def fit(figure: Figure) -> None:
    """Bring a figure that is drawn to the width of the sheet, with letters of its sizes and numbers that do not touch.

    Raises StoreError where a text has no place.
    """
    sheet_now = current_sheet()
    if sheet_now is None:
        return
    from matplotlib.text import Text

    figure.set_figwidth(sheet_now.inches)
    for axes in figure.axes:
        fixed = [axis for axis in (axes.xaxis, axes.yaxis) if _is_fixed(axis)]
        for axis in (axes.xaxis, axes.yaxis):
            if axis not in fixed:
                axis.set_tick_params(which="both", labelsize=NORMAL)
    for text in figure.findobj(Text):
        text.set_fontsize(min(max(float(text.get_fontsize()), SMALL), NORMAL))
    if (title := figure._suptitle) is not None:  # type: ignore[attr-defined]
        title.set_text(wrap_text(title.get_text(), sheet_now.inches - 0.1, NORMAL))
    # Each change moves the layout, which may make other texts too long, so this is repeated while anything changes.
    for _ in range(_ROUNDS):
        figure.draw_without_rendering()
        changed = [_fit_labels(axes) for axes in figure.axes]
        changed += [_thin_numbers(axis) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
        if not any(changed):
            break
    outside = [text for text in shown_texts(figure) if not _is_within(text, figure)]
    if outside:
        raise StoreError(
            f"at {sheet_now.width:g} points there is no place for {outside[0].get_text()!r}. Draw the figure wider "
            "(--width page), or give what it shows a shorter title in the suite"
        )


def shown_texts(figure: Figure) -> list[Text]:
    """Return the texts that a figure shows, each once. Its layout must have been made."""
    from matplotlib.text import Text

    numbers = {
        id(number_label)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for number_label in _all_labels(axis)
    }
    other_texts = [text for text in figure.findobj(Text) if id(text) not in numbers and _is_shown(text)]
    return other_texts + [
        number_label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for number_label in number_labels(axis)
    ]


def number_labels(axis: Axis) -> list[Text]:
    """Return the labels of an axis that are shown."""
    if not (axis.get_visible() and axis.axes.get_visible() and axis.axes.axison):
        return []
    shown_labels = []
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * max(abs(low), abs(high))
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        if low - slack <= tick.get_loc() <= high + slack:
            shown_labels += [label for label in (tick.label1, tick.label2) if _is_shown(label)]
    return shown_labels


def _all_labels(axis: Axis) -> list[Text]:
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [axis.offsetText, *(label for tick in ticks for label in (tick.label1, tick.label2))]


def _is_shown(text: Text) -> bool:
    return bool(text.get_visible() and text.get_text().strip() and (text.axes is None or text.axes.get_visible()))


def _is_within(text: Text, figure: Figure) -> bool:
    box = text.get_window_extent()
    slack = figure.dpi / 72  # a point, by which extents are larger than letters
    right, top = figure.bbox.x1 + slack, figure.bbox.y1 + slack
    return bool(box.x0 >= -slack and box.y0 >= -slack and box.x1 <= right and box.y1 <= top)


def _fit_labels(axes: Axes) -> bool:
    """Break the labels of axes that are longer than these; return whether one was."""
    changed = False
    dpi = axes.figure.dpi
    for axis, inches in ((axes.xaxis, axes.bbox.width / dpi + 0.05), (axes.yaxis, axes.bbox.height / dpi + 0.1)):
        label = axis.get_label()
        broken = wrap_text(label.get_text(), max(inches, 0.7), float(label.get_fontsize()))
        if broken.count("\n") > label.get_text().count("\n"):
            label.set_text(broken)
            changed = True
    return changed


def _is_fixed(axis: Axis) -> bool:
    from matplotlib.ticker import FixedLocator

    return isinstance(axis.get_major_locator(), FixedLocator)


def _thin_numbers(axis: Axis) -> bool:
    """Show fewer numbers on an axis where they touch; return whether there were any such."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    labels = number_labels(axis)
    if _is_fixed(axis) or not _any_touching(labels):
        return False
    if axis.get_scale() != "log":
        axis.set_major_locator(MaxNLocator(max(1, min(len(labels) - 2, 6))))
        return True
    ticks = [
        (rank, tick.get_loc(), tick.label1)
        for rank, axis_ticks in enumerate((axis.get_major_ticks(), axis.get_minor_ticks()))
        for tick in axis_ticks
        if tick.label1 in labels
    ]
    kept_labels: list[tuple[float, Text]] = []
    # Numbers on a log axis are taken in order of preference, so 1 and 10 stay when 2 and 5 have no room.
    for _, location, label in sorted(ticks, key=lambda tick: (tick[0], _preference(tick[1]), tick[1])):
        if not any(_any_touching([label, other]) for _, other in kept_labels):
            kept_labels.append((location, label))
    texts = {f"{location:.6g}": label.get_text() for location, label in kept_labels}
    shown = FuncFormatter(lambda location, _: texts.get(f"{location:.6g}", ""))
    axis.set_major_formatter(shown)
    axis.set_minor_formatter(shown)
    return True


def _preference(value: float) -> int:
    """Return the place of a number on a logarithmic axis among those that may be left out, the dearest first."""
    digit = round(value / 10 ** math.floor(math.log10(value))) if value > 0 else 1
    return [1, 10, 5, 2, 3, 7, 4, 6, 8, 9].index(digit)


def _any_touching(labels: Sequence[Text]) -> bool:
    """Return whether two labels of an axis touch, or lie closer than half a letter."""
    boxes = [label.get_window_extent() for label in labels]
    distance = 0.25 * SMALL / 72 * (labels[0].figure.dpi if labels and labels[0].figure is not None else 72)
    grown = [box.from_extents(box.x0 - distance, box.y0, box.x1 + distance, box.y1) for box in boxes]
    return any(a.overlaps(b) for i, a in enumerate(grown) for b in grown[i + 1 :])
