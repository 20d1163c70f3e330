"""Quality against robustness: a mark for each encoder with both intervals, and the front that no encoder dominates.

A panel is an attack on a task. An encoder is on the front if no other one is at least as good in both respects and
better in one. Intervals are of each number by itself, so encoders whose bars overlap may change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rbench.config.metrics import HEADLINE
from rbench.errors import StoreError
from rbench.report.figures import style
from rbench.schema.common import Strict
from rbench.tables import Results
from rbench.tables.aggregate import Grid, grid
from rbench.tables.evaluations import Evaluated, similarity
from rbench.tables.notes import spanned
from rbench.tables.table import Number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Quality (STS or clean accuracy) against robustness (ASR or accuracy under attack), with the front of both"
_COLUMNS = 3
"""Most panels side by side."""


class Options(Strict):
    """What a suite may set."""

    quality: str | None = None
    """`sts`: average of the suite's STS tasks; or a metric such as `clean`. None: `sts` where the RUN has it."""
    robustness: str = HEADLINE
    """A metric of attacks, of which one end is good."""
    attack: str | None = None
    """The only attack to draw; None: all."""
    task: str | None = None
    """The only task to draw; None: all."""


class Mark(NamedTuple):
    """An encoder in a panel."""

    label: str
    quality: Number
    robustness: Number

    def point(self, lowest: bool) -> tuple[float, float]:
        """Return both numbers so that high is good. `lowest`: whether low robustness is good."""
        across = self.robustness.value or 0.0
        return (-across if lowest else across), self.quality.value or 0.0


def draw(options: Options, results: Results) -> Figure:
    """Draw from what the tables show. Raises StoreError, with a remedy, where no encoder has both numbers."""
    of, vectors = grid(results), similarity(results)
    quality = options.quality or ("sts" if vectors.labels else "clean")
    if quality == "sts" and not vectors.labels:
        raise StoreError(
            f"{results.root} has no STS: suite {of.plan.suite.name} evaluates on no STS task. Add one under `evaluate` "
            "and run it again, or draw `--option quality=clean`"
        )
    robust = of.metrics[options.robustness].about
    _check(options, of)
    panels, left = _panels(options, of, vectors, quality)
    if not panels:
        raise StoreError(
            f"{results.root}: no encoder has {quality} and {options.robustness} under such an attack yet. "
            "Run the suite again, and draw it then"
        )
    figure, axes = style.panels([title for title, _ in panels], columns=_COLUMNS)
    labels = list(dict.fromkeys(mark.label for _, marks in panels for mark in marks))
    drawn: dict[str, Artist] = {}
    for place, (_, marks) in zip(axes, panels, strict=True):
        _join(place, marks, lowest=robust.best == "lowest")
        for mark in marks:
            index = labels.index(mark.label)
            found = style.point(place, mark.robustness, mark.quality, index=index, label=mark.label)
            drawn.setdefault(mark.label, found)
        place.set_xlabel(style.axis(robust))
    sets = f"STS, mean of {len(vectors.labels)}" if len(vectors.labels) > 1 else "".join(vectors.labels)
    for place in axes[::_COLUMNS]:
        place.set_ylabel(f"{sets} (×100)" if quality == "sts" else style.axis(of.metrics[quality].about))
    style.legend(figure, [drawn[label] for label in labels], labels)
    style.note(figure, _note(panels, robust.column, left))
    return figure


def _check(options: Options, of: Grid) -> None:
    for what, asked, there in (("attack", options.attack, of.attacks), ("task", options.task, of.tasks)):
        if asked is not None and asked not in there:
            raise StoreError(f"there is no {what} {asked}; the RUN has {', '.join(there)}")


def _panels(
    options: Options, of: Grid, vectors: Evaluated, quality: str
) -> tuple[list[tuple[str, list[Mark]]], list[str]]:
    """Return the marks of each panel with its title, and the encoders without one of the two numbers."""
    several = len({cell.finetune for cell in of.cells.values()}) > 1
    chosen = [
        cell
        for cell in of.cells.values()
        if options.attack in (None, cell.attack) and options.task in (None, cell.task) and cell.present
    ]
    tasks = len({cell.task for cell in chosen}) > 1
    panels: dict[str, list[Mark]] = {}
    left: dict[str, None] = {}
    for cell in chosen:
        label = f"{cell.encoder}, {cell.finetune}" if several else cell.encoder
        good = vectors.mean(cell.encoder) if quality == "sts" else cell.number(quality)
        hard = cell.number(options.robustness)
        if good is None or hard is None or good.value is None or hard.value is None:
            left[label] = None
            continue
        title = f"{cell.attack}, {cell.task}" if tasks else cell.attack
        panels.setdefault(title, []).append(Mark(label, good, hard))
    return list(panels.items()), list(left)


def _join(axes: Axes, marks: list[Mark], *, lowest: bool) -> None:
    """Join the marks on the front with a muted line behind them."""
    on = [marks[i] for i in front([mark.point(lowest) for mark in marks])]
    x = [style.on_axis(mark.robustness, mark.robustness.percent)[0] for mark in on]
    y = [style.on_axis(mark.quality, mark.quality.percent)[0] for mark in on]
    axes.plot(x, y, color=style.MUTED, linewidth=0.9, zorder=1, label="front")


def _note(panels: list[tuple[str, list[Mark]]], column: str, left: list[str]) -> str:
    sizes = [mark.robustness.n for _, marks in panels for mark in marks if mark.robustness.n is not None]
    said = f"n of {column} {spanned(sizes)}; bars are 95% intervals of each number by itself. "
    said += "The line joins the encoders that no other one dominates."
    if any(mark.quality.low is None for _, marks in panels for mark in marks):
        said += " The quality shown has no interval here."
    return said + (f" Without one of the two numbers: {', '.join(left)}." if left else "")


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that no other point dominates, from the lowest first number to the highest.

    A point dominates another if it is at least as high in both numbers and higher in one. Equal points do not dominate
    each other, so all of them are on the front.

    Args:
        points: pairs of numbers, each the better the higher.
    """

    def dominated(one: tuple[float, float]) -> bool:
        return any(other[0] >= one[0] and other[1] >= one[1] and other != one for other in points)

    found = [i for i, point in enumerate(points) if not dominated(point)]
    return sorted(found, key=lambda i: (points[i][0], -points[i][1], i))
