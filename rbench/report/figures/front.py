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
from rbench.measures.sts import collect_similarity
from rbench.report.figures import RunFigure, style
from rbench.schema.claims import CellOf
from rbench.schema.common import Strict
from rbench.tables import Results
from rbench.tables.notes import format_range
from rbench.tables.table import Number
from rbench.verdicts.cells import CellNumber, cells_by_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 3
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


class EncoderMark(NamedTuple):
    """An encoder in a panel."""

    label: str
    encoder: str
    quality: Number
    robustness: Number

    def point(self, lowest: bool) -> tuple[float, float]:
        """Return both numbers so that high is good. `lowest`: whether low robustness is good."""
        across = self.robustness.value or 0.0
        return (-across if lowest else across), self.quality.value or 0.0


class FrontFigure(RunFigure[Options]):
    title = "Quality (STS or clean accuracy) against robustness (ASR or accuracy under attack), with the front of both"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from what the tables show. Raises StoreError where no encoder has both numbers."""
        robust_metric, vectors = results.metrics.asked(options.robustness), collect_similarity(results)
        quality = options.quality or ("sts" if vectors.labels else "clean")
        robust_cells = cells_by_name(results, robust_metric)
        quality_metric = None if quality == "sts" else results.metrics.asked(quality)
        quality_cells = cells_by_name(results, quality_metric) if quality_metric is not None else {}
        panels, without_both = marks_by_panel(
            options,
            robust_cells,
            lambda name: vectors.mean(name.encoder) if quality_metric is None else quality_of(name, quality_cells),
        )
        figure, axes = style.panels([title for title, _ in panels], columns=_MOST_COLUMNS)
        labels = list(dict.fromkeys(mark.label for _, marks in panels for mark in marks))
        drawn: dict[str, Artist] = {}
        for axes_of_panel, (_, marks) in zip(axes, panels, strict=True):
            _draw_front(axes_of_panel, marks, lowest=robust_metric.about.best == "lowest")
            for mark in marks:
                index = labels.index(mark.label)
                artist = style.point(axes_of_panel, mark.robustness, mark.quality, index=index, label=mark.label)
                drawn.setdefault(mark.label, artist)
            axes_of_panel.set_xlabel(style.axis(robust_metric.about))
        quality_label = f"STS, mean of {len(vectors.labels)}" if len(vectors.labels) > 1 else "".join(vectors.labels)
        for axes_of_panel in filter(style.is_leftmost, axes):
            axes_of_panel.set_ylabel(
                f"{quality_label} (×100)" if quality_metric is None else style.axis(quality_metric.about)
            )
        style.legend(figure, [drawn[label] for label in labels], labels)
        style.note(figure, _write_note(panels, robust_metric.about.column, without_both))
        return figure


def quality_of(name: CellOf, quality_cells: Mapping[CellOf, CellNumber]) -> Number | None:
    """Return the number of the cell of the same encoder, attack, strategy and task, as far as it has these.

    Where it is of another task it is taken if there is no other, such as the alignment on the only STS task.
    """
    # First the cell of the same attack and strategy; a number that has neither, such as STS, comes last.
    for attack, finetune in product((name.attack, None), (name.finetune, None)):
        same_but_task = CellOf(name.encoder, None, attack, finetune)
        by_task = {
            other.task: cell for other, cell in quality_cells.items() if other._replace(task=None) == same_but_task
        }
        cell = by_task.get(name.task) or (next(iter(by_task.values())) if len(by_task) == 1 else None)
        if cell is not None:
            return cell.cell.number(cell.number)
    return None


def marks_by_panel(
    options: Options, robust_cells: Mapping[CellOf, CellNumber], quality: Callable[[CellOf], Number | None]
) -> tuple[list[tuple[str, list[EncoderMark]]], list[str]]:
    """Return the marks of each panel with its title, and the encoders without one of the two numbers."""
    several_strategies = len({name.finetune for name in robust_cells}) > 1
    chosen = {
        name: cell
        for name, cell in robust_cells.items()
        if options.attack in (None, name.attack) and options.task in (None, name.task) and cell.cell.present
    }
    several_tasks = len({name.task for name in chosen}) > 1
    panels: dict[str, list[EncoderMark]] = {}
    without_both: dict[str, None] = {}
    for name, cell in chosen.items():
        label = f"{name.encoder}, {name.finetune}" if several_strategies else name.encoder
        quality_number, robust_number = quality(name), cell.cell.number(cell.number)
        if (
            quality_number is None
            or robust_number is None
            or quality_number.value is None
            or robust_number.value is None
        ):
            without_both[label] = None
            continue
        title_parts = (name.attack, name.task if several_tasks or name.attack is None else None)
        panels.setdefault(", ".join(filter(None, title_parts)), []).append(
            EncoderMark(label, name.encoder, quality_number, robust_number)
        )
    return list(panels.items()), list(without_both)


def _draw_front(axes: Axes, marks: list[EncoderMark], *, lowest: bool) -> None:
    """Join the marks on the front with a muted line behind them."""
    on_front = [marks[i] for i in find_front([mark.point(lowest) for mark in marks])]
    x = [style.on_axis(mark.robustness, mark.robustness.percent)[0] for mark in on_front]
    y = [style.on_axis(mark.quality, mark.quality.percent)[0] for mark in on_front]
    axes.plot(x, y, color=style.MUTED, linewidth=0.9, zorder=1, label="front")


def _write_note(panels: list[tuple[str, list[EncoderMark]]], column: str, without_both: list[str]) -> str:
    sizes = [mark.robustness.n for _, marks in panels for mark in marks if mark.robustness.n is not None]
    sentences = f"n of {column} {format_range(sizes)}; bars are 95% intervals of each number by itself. "
    sentences += "The line joins the encoders that no other one dominates."
    if any(mark.quality.low is None for _, marks in panels for mark in marks):
        sentences += " The quality shown has no interval here."
    return sentences + (f" Without one of the two numbers: {', '.join(without_both)}." if without_both else "")


def find_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that no other point dominates, from the lowest first number to the highest.

    A point dominates another if it is at least as high in both numbers and higher in one. Equal points do not dominate
    each other, so all of them are on the front.

    Args:
        points: pairs of numbers, each the better the higher.
    """

    def dominated(candidate: tuple[float, float]) -> bool:
        return any(other[0] >= candidate[0] and other[1] >= candidate[1] and other != candidate for other in points)

    on_front = [i for i, point in enumerate(points) if not dominated(point)]
    return sorted(on_front, key=lambda i: (points[i][0], -points[i][1], i))
