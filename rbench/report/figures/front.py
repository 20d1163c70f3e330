"""Quality against robustness: a mark for each encoder with both intervals, and the front that no encoder dominates.

A panel is an attack on a task, or a task where the robustness is no attack's. An encoder is on the front if no other
one is at least as good in both respects and better in one. Intervals are of each number by itself, so encoders whose
bars overlap may change places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from rbench.config.metrics import HEADLINE
from rbench.errors import StoreError
from rbench.measures.sts import similarity
from rbench.report.figures import style
from rbench.schema.claims import CellOf
from rbench.schema.common import Strict
from rbench.tables import Results
from rbench.tables.notes import spanned
from rbench.tables.table import Number
from rbench.verdicts.cells import OfCell, by_name

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
    """`sts`: average of the suite's STS tasks; or a metric such as `clean`, or a number of a measure. It is that of the
    same encoder, task, strategy and attack as far as it has these. None: `sts` where the RUN has it."""
    robustness: str = HEADLINE
    """A metric, or a number of a measure, of which one end is good."""
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
    robust, vectors = results.metrics.asked(options.robustness), similarity(results)
    quality = options.quality or ("sts" if vectors.labels else "clean")
    if quality == "sts" and not vectors.labels:
        raise StoreError(
            f"{results.root} has no STS: suite {results.plan.suite.name} evaluates on no STS task. Add one under "
            "`evaluate` and run it again, or draw `--option quality=clean`"
        )
    there = by_name(results, robust)
    _check(options, there)
    good = None if quality == "sts" else results.metrics.asked(quality)
    beside = by_name(results, good) if good is not None else {}
    panels, left = _panels(
        options, there, lambda name: vectors.mean(name.encoder) if good is None else _beside(name, beside)
    )
    if not panels:
        raise StoreError(
            f"{results.root}: no encoder has {quality} and {options.robustness} under such an attack yet. "
            "Run the suite again, and draw it then"
        )
    figure, axes = style.panels([title for title, _ in panels], columns=_COLUMNS)
    labels = list(dict.fromkeys(mark.label for _, marks in panels for mark in marks))
    drawn: dict[str, Artist] = {}
    for place, (_, marks) in zip(axes, panels, strict=True):
        _join(place, marks, lowest=robust.about.best == "lowest")
        for mark in marks:
            index = labels.index(mark.label)
            found = style.point(place, mark.robustness, mark.quality, index=index, label=mark.label)
            drawn.setdefault(mark.label, found)
        place.set_xlabel(style.axis(robust.about))
    sets = f"STS, mean of {len(vectors.labels)}" if len(vectors.labels) > 1 else "".join(vectors.labels)
    for place in filter(style.is_leftmost, axes):
        place.set_ylabel(f"{sets} (×100)" if good is None else style.axis(good.about))
    style.legend(figure, [drawn[label] for label in labels], labels)
    style.note(figure, _note(panels, robust.about.column, left))
    return figure


def _check(options: Options, there: Mapping[CellOf, OfCell]) -> None:
    for what, asked in (("attack", options.attack), ("task", options.task)):
        names = dict.fromkeys(name for one in there if (name := getattr(one, what)) is not None)
        if asked is not None and asked not in names:
            has = f"the RUN has {', '.join(names)}" if names else f"{options.robustness} has none"
            raise StoreError(f"there is no {what} {asked}; {has}")


def _beside(name: CellOf, found: Mapping[CellOf, OfCell]) -> Number | None:
    """Return the number of the cell of the same encoder, attack, strategy and task, as far as it has these.

    Where it is of another task it is taken if there is no other, such as the alignment on the only STS task.
    """
    for attack, finetune in product((name.attack, None), (name.finetune, None)):
        wanted = CellOf(name.encoder, None, attack, finetune)
        own = {other.task: one for other, one in found.items() if other._replace(task=None) == wanted}
        one = own.get(name.task) or (next(iter(own.values())) if len(own) == 1 else None)
        if one is not None:
            return one.cell.number(one.number)
    return None


def _panels(
    options: Options, there: Mapping[CellOf, OfCell], quality: Callable[[CellOf], Number | None]
) -> tuple[list[tuple[str, list[Mark]]], list[str]]:
    """Return the marks of each panel with its title, and the encoders without one of the two numbers."""
    several = len({name.finetune for name in there}) > 1
    chosen = {
        name: one
        for name, one in there.items()
        if options.attack in (None, name.attack) and options.task in (None, name.task) and one.cell.present
    }
    tasks = len({name.task for name in chosen}) > 1
    panels: dict[str, list[Mark]] = {}
    left: dict[str, None] = {}
    for name, one in chosen.items():
        label = f"{name.encoder}, {name.finetune}" if several else name.encoder
        good, hard = quality(name), one.cell.number(one.number)
        if good is None or hard is None or good.value is None or hard.value is None:
            left[label] = None
            continue
        shown = (name.attack, name.task if tasks or name.attack is None else None)
        panels.setdefault(", ".join(filter(None, shown)), []).append(Mark(label, good, hard))
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
