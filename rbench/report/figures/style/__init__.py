"""One look for all figures: sizes for papers, and colours and markers that colour-blind readers tell apart.

rbench draws inside `applied()`, which sets fonts and lines and leaves the settings of the caller's matplotlib alone.

It is a package, because each module directly under `figures` is a figure.
"""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from rbench.errors import StoreError
from rbench.report.figures.style import printing
from rbench.report.figures.style.printing import LEAST_WIDTH, FigureSheet, fit, lines, text_width
from rbench.schema import Meaning, Score
from rbench.tables.for_people import replace_names_in_text
from rbench.tables.formats import SIGN_MEANINGS
from rbench.tables.table import FLAGGED, Number

__all__ = ["FigureSheet", "fit", "lines", "text_width"]

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

COLUMN = 3.3
"""Width of a column of a two-column paper, in inches."""
PAGE = 6.9
"""Width of both columns, in inches."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito (2008) without its yellow, which is too pale for lines."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers in the order of COLOURS. Their number is another's than that of LINES, so pairs do not repeat soon."""
# Two numbers without a common divisor, so that a colour meets the same line style again only after 42 series.
LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)))
"""Line styles; the last two are matplotlib's `(offset, (on, off, ...))`."""
FILLS = ("full", "none", "left", "right", "bottom", "top")
"""How markers are filled. Series 7 to 13 have the colours and markers of 0 to 6, and are hollow."""
MUTED = "#707070"
"""For what is no series: lines of reference and lines that join points."""
FORMATS = ("pdf", "svg", "png")
"""What `save` can write."""
SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures are the same on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2,
    "pdf.fonttype": 42,  # text stays text, which can be searched and edited
    "svg.fonttype": "none",
    "svg.hashsalt": "rbench",  # otherwise ids in SVG files are random
    "savefig.dpi": 300,
    "text.parse_math": False,  # a `$` in a name is a dollar
    "text.usetex": False,
}
"""matplotlib's settings for all figures. Settings that are not named here have matplotlib's defaults."""
_ROWS = 4
"""The most rows of a legend in a figure that is as wide as a column."""
_BELOW = 0.42
"""Inches below a panel of a sheet that its numbers and its label have; a legend may begin there."""
_METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
"""What the formats would say of themselves: a date and matplotlib's version. Files without them can be compared."""

Interval = tuple[float, float] | None
"""Lower and upper end of an interval, as values on the axis (not as distances); None where there is none."""


def on_axis(scored: Number | Score, percent: bool) -> tuple[float, Interval]:
    """Return a value and its interval as an axis shows them, shares in percent."""
    scale = 100 if percent else 1
    interval = None if scored.low is None or scored.high is None else (scale * scored.low, scale * scored.high)
    return scale * (scored.value or 0.0), interval


_TITLES: ContextVar[Mapping[str, str]] = ContextVar("titles", default={})  # noqa: B039 - it is never changed


@contextlib.contextmanager
def applied(titles: Mapping[str, str] | None = None, sheet: FigureSheet | None = None) -> Iterator[None]:
    """Use SETTINGS for what is drawn or saved inside. The settings of the caller come back afterwards.

    Args:
        titles: what stands for names in titles, legends and notes, as in tables.
        sheet: the place in a paper for which figures are drawn; None: they have the sizes that this module gives them.
    """
    from matplotlib import style

    # Set and reset by the same token, so that figures drawn inside another `applied` give its titles back.
    token = _TITLES.set(titles or {})
    try:
        sheet_settings = printing.SETTINGS if sheet is not None else {}
        with style.context(["default", {**SETTINGS, **sheet_settings}]), printing.drawing_for(sheet):
            yield
    finally:
        _TITLES.reset(token)


def named(text: str, *, sentence: bool = False) -> str:
    """Return a text with titles in place of the names in it.

    Args:
        sentence: whether it has other words, so that a name that could be one of them stays.
    """
    return replace_names_in_text(text, _TITLES.get(), sentence=sentence)


def look(index: int) -> dict[str, Any]:
    """Return colour, marker, its filling and line style of the series with this index, for lines of matplotlib.

    The first six differ in colour, marker and line style. The points of the first 42 differ, and so do the lines.
    """
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "fillstyle": FILLS[index // len(MARKERS) % len(FILLS)],
        "linestyle": LINES[index % len(LINES)],
    }


def new(width: float = COLUMN, height: float | None = None) -> Figure:
    """Return an empty figure of this size in inches; without a height, three quarters of the width.

    For a sheet it is as wide as that. It is made without pyplot, so that no window system is asked for and no global
    state is left.
    """
    from matplotlib.figure import Figure

    if (sheet := printing.current_sheet()) is not None:
        width = sheet.inches
    return Figure(figsize=(width, 0.75 * width if height is None else height), layout="constrained")


def is_printed() -> bool:
    """Return whether figures are drawn for a sheet now, a place of a given width in a paper."""
    return printing.current_sheet() is not None


def side_by_side(count: int, columns: int, least: float = LEAST_WIDTH) -> tuple[int, float]:
    """Return how many of `count` panels lie side by side, at most `columns`, and their figure's width in inches.

    Raises StoreError where there is no panel.
    """
    if not count:
        raise StoreError(
            "there is nothing to draw: nothing that the figure shows is done under these options, or all of it is "
            "withheld for its flags. rbench status RUN says what is done; rbench list figures NAME has the options"
        )
    if (sheet := printing.current_sheet()) is not None:
        return printing.side_by_side(count, columns, least), sheet.inches
    in_row = min(columns, count)
    return in_row, COLUMN if in_row == 1 else PAGE


def panels(
    titles: Sequence[str],
    *,
    columns: int = 2,
    height: float = 2.2,
    share_x: bool = False,
    share_y: bool = False,
    least: float = LEAST_WIDTH,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each title, and its panels in the same order.

    One panel is as wide as a column; several fill the page's width. An empty title is not shown. On a sheet, as many
    lie side by side as have room.

    Args:
        titles: the panels' titles, in order of rows.
        columns: the largest number of panels side by side.
        height: the height of a panel, in inches.
        share_x: whether all panels have the same x axis.
        share_y: whether all panels have the same y axis.
        least: the least width of a panel on a sheet, in inches.

    Raises:
        StoreError: there is no panel, or on its sheet the figure would be taller than a page.
    """
    columns_in_row, width = side_by_side(len(titles), columns, least)
    figure_height = math.ceil(len(titles) / columns_in_row) * height
    if printing.current_sheet() is not None:
        columns_in_row, figure_height = printing.arrange_panels([*map(named, titles)], columns, height, least)
    rows = math.ceil(len(titles) / columns_in_row)
    figure = new(width, figure_height)
    all_axes = figure.subplots(rows, columns_in_row, sharex=share_x, sharey=share_y, squeeze=False).ravel().tolist()
    for axes in all_axes[len(titles) :]:
        axes.remove()
    for axes, title in zip(all_axes, titles, strict=False):
        panel_title(axes, title)
    return figure, all_axes[: len(titles)]


def is_leftmost(axes: Axes) -> bool:
    """Return whether a panel is the first of its row."""
    subplot = axes.get_subplotspec()
    assert subplot is not None
    return subplot.is_first_col()


def is_lowest(axes: Axes, panels: Sequence[Axes]) -> bool:
    """Return whether no other panel lies below one."""
    subplot, others = axes.get_subplotspec(), [grid_place.get_subplotspec() for grid_place in panels]
    assert subplot is not None
    in_column = [
        grid_place
        for grid_place in others
        if grid_place is not None and grid_place.colspan.start == subplot.colspan.start
    ]
    return all(grid_place.rowspan.start <= subplot.rowspan.start for grid_place in in_column)


def points(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    *,
    index: int,
    label: str,
    x_intervals: Sequence[Interval] | None = None,
    y_intervals: Sequence[Interval] | None = None,
    joined: bool = False,
    **more: Any,
) -> ErrorbarContainer:
    """Draw points of the series `index` with the bars of their intervals; `joined` draws its line too.

    Intervals are values on the axis, as `Score.low` and `Score.high` are. A point without an interval has no bar.
    Returns the container, which may be handed to `legend`; `container[0]` is the line with the points.
    """
    styles: dict[str, Any] = {**look(index), **({} if joined else {"linestyle": "none"}), **more}
    bars = {"xerr": _distances(x, x_intervals), "yerr": _distances(y, y_intervals)}
    return axes.errorbar(x, y, **bars, **styles, elinewidth=0.7, label=label)  # type: ignore[arg-type]


def point(axes: Axes, across: Number, up: Number, *, index: int, label: str, **more: Any) -> Artist:
    """Draw a point of the series `index` at two numbers of a table, and return what the legend shows."""
    (x, x_interval), (y, y_interval) = (on_axis(number, number.percent) for number in (across, up))
    drawn: Artist = points(
        axes, [x], [y], index=index, label=label, x_intervals=[x_interval], y_intervals=[y_interval], **more
    )[0]
    if across.flagged or up.flagged:
        flag(axes, x, y, index=index)
    return drawn


def flag(axes: Axes, x: float, y: float, *, index: int, **more: Any) -> None:
    """Write the sign of a flag beside what is drawn of the series `index`; `note` then says what it means.

    Args:
        x: where it is drawn, as a value on the axis.
        y: the same.
        index: of the series, whose colour the sign has.
        more: for matplotlib's `annotate`.
    """
    place: dict[str, Any] = {"xytext": (2.5, 1.5), "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(FLAGGED, (x, y), **{**place, **more}, color=COLOURS[index % len(COLOURS)])


def band(
    axes: Axes,
    x: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    *,
    index: int,
    step: Literal["pre", "post", "mid"] | None = None,
) -> None:
    """Shade an interval around the line of the series `index`; `step` as in matplotlib, for lines drawn as steps."""
    axes.fill_between(x, low, high, step=step, color=COLOURS[index % len(COLOURS)], alpha=0.18, linewidth=0)


def legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], *, title: str | None = None) -> Legend:
    """Put a legend above all panels, where it hides no data, with as many columns as the figure's width has room for.

    A figure has one legend: a second one would be drawn over it. Entries may be of different kinds. The figure grows
    by the legend's height, so that the panels keep theirs. Where a legend is long, the figure becomes a page wide,
    unless it is for a sheet: then long labels have several lines.
    """
    labels = [*map(named, labels)]
    place: dict[str, Any] = {"loc": "outside upper center", "title": title}
    if (sheet := printing.current_sheet()) is not None:
        labels = [printing.wrap_text(label, sheet.inches - 0.6) for label in labels]
        columns, legend_height = printing.legend_columns(labels, sheet.inches - 0.1)
        heighten(figure, legend_height)
        return figure.legend(list(handles), labels, ncols=columns, **place)
    widest = 0.5 + 0.062 * max(map(len, labels), default=0)  # of an entry, in inches: its sample and its letters
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    if math.ceil(len(labels) / columns) > _ROWS and figure.get_figwidth() < PAGE:
        figure.set_figwidth(PAGE)
        columns = max(1, min(len(labels), int(PAGE / widest)))
    heighten(figure, 0.15 * math.ceil(len(labels) / columns))
    return figure.legend(list(handles), labels, ncols=columns, **place)


def legend_below(axes: Axes, handles: Sequence[Artist], labels: Sequence[str]) -> Legend:
    """Put a legend in one column below a panel, for series that only this panel, or the panels above it, have."""
    from matplotlib.transforms import ScaledTranslation

    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.35), "borderaxespad": 0.0}
    labels, subplot = [*map(named, labels)], axes.get_subplotspec()
    if (sheet := printing.current_sheet()) is not None and subplot is not None:
        room = sheet.inches / subplot.get_gridspec().ncols - 0.4
        labels = [printing.wrap_text(label, room) for label in labels]
        # A distance that grows with the panel would grow with the room that the layout finds, and the legend leave it.
        below = ScaledTranslation(0, -_BELOW, axes.get_figure().dpi_scale_trans)  # type: ignore[union-attr]
        place |= {"handlelength": 1.5, "bbox_to_anchor": (0.5, 0.0), "bbox_transform": axes.transAxes + below}
    return axes.legend(list(handles), labels, **place)


def log(axes: Axes, which: Literal["x", "y"] = "y") -> None:
    """Make an axis logarithmic. Its numbers are written without exponents: 0.2 and 3000, not 2e-01 and 3e+03."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """Shows the numbers that `LogFormatter` shows, without exponents."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            shown = super().__call__(x, pos)  # empty where numbers would be too many
            return np.format_float_positional(float(f"{x:.6g}"), trim="-") if shown else ""

    axes.set(**{f"{which}scale": "log"})
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(minor_thresholds=(1.5, 0.6)))


def panel_title(axes: Axes, text: str, fontsize: float | None = None) -> None:
    """Write a title above a panel, in as many lines as keep it from running into its neighbours."""
    title = axes.set_title("", fontsize=fontsize)
    subplot, figure = axes.get_subplotspec(), axes.get_figure()
    assert subplot is not None and figure is not None
    inches = figure.get_figwidth() / subplot.get_gridspec().ncols  # type: ignore[union-attr]
    if printing.current_sheet() is not None:
        room = printing.title_room(inches, numbers=len(axes.get_yticks()) > 0)
        title.set_text(printing.wrap_text(named(text), room, float(title.get_fontsize())))
        return
    letters = int(inches / (0.6 * float(title.get_fontsize()) / 72))  # a letter is some 0.6 of its size wide
    title.set_text(lines(named(text), letters))


def row_title(axes: Axes, text: str) -> None:
    """Write a title above the first panel of a row. It may be wider than the panel, and does not widen its column."""
    text = named(text)
    if (sheet := printing.current_sheet()) is not None:
        text = printing.wrap_text(text, sheet.inches - 0.6, printing.NORMAL)
    title = axes.set_title(" " + "\n " * text.count("\n"))  # keeps the height free
    place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 4), "textcoords": "offset points"}
    axes.annotate(text, (0, 1), **place, fontsize=title.get_fontsize()).set_in_layout(False)


def axis(about: Meaning) -> str:
    """Return the label of an axis of a metric: `Clean accuracy (%)`."""
    label_words = about.words[:1].upper() + about.words[1:]
    return f"{label_words} ({about.unit})" if about.percent else label_words


def note(figure: Figure, text: str) -> None:
    """Write a note below the panels, for what a reader must know: what n is, and which intervals are shown.

    It ends with what the signs of flags in the panels mean. The figure grows by the note's height. On a sheet the note
    is a part of the caption instead.
    """
    texts_shown = {text_in_figure.get_text() for axes in figure.axes for text_in_figure in (*axes.texts, axes.title)}
    text = " ".join([text, *([SIGN_MEANINGS[FLAGGED]] if any(FLAGGED in sign for sign in texts_shown) else [])]).strip()
    if not text:
        return
    if printing.current_sheet() is not None:
        caption(text)
        return
    letters = int(figure.get_figwidth() / 0.048)  # of a line; a letter of this size is some 0.048 inches wide
    wrapped = textwrap.wrap(named(text, sentence=True), letters)
    heighten(figure, 0.12 * len(wrapped))
    figure.supxlabel("\n".join(wrapped), fontsize=6.5, color="#404040")


def save(figure: Figure, to: Path | BinaryIO, fmt: str) -> None:
    """Write a figure in one of FORMATS. The same figure makes the same bytes each time."""
    with applied():
        figure.savefig(to, format=fmt, metadata=_METADATA[fmt])


def caption(text: str) -> None:
    """Add sentences to the caption of a figure for a sheet, for what it shows without a note."""
    if (sheet := printing.current_sheet()) is not None:
        sheet.caption.append(named(text, sentence=True))


def check_height(figure: Figure) -> None:
    """Raise StoreError where a figure is taller than the page of its sheet."""
    printing.check_height(figure.get_figheight())


def heighten(figure: Figure, inches: float) -> None:
    """Make a figure taller."""
    figure.set_figheight(figure.get_figheight() + inches)


def _distances(values: Sequence[float], intervals: Sequence[Interval] | None) -> list[list[float]] | None:
    """Return distances from values down to the lower and up to the upper ends of intervals, as matplotlib wants them.

    A distance that rounding makes negative is 0. Without an interval it is nan, for which matplotlib draws no bar.
    """
    if intervals is None or all(interval is None for interval in intervals):
        return None
    down, up = [], []
    for value, interval in zip(values, intervals, strict=True):
        low, high = interval if interval is not None else (math.nan, math.nan)
        # nan is the only number that is not equal to itself: it stands for a missing interval.
        down.append(max(value - low, 0.0) if low == low else math.nan)
        up.append(max(high - value, 0.0) if high == high else math.nan)
    return [down, up]
