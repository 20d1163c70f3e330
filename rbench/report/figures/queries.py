"""Average queries against the loss of accuracy under attack (RobustSentEmbed, Figure 2).

A panel is an attack, and a point in it an encoder. To the left, the attack takes little accuracy; to the top, it asks
many queries. So robust encoders are at the top left, as in the paper. All panels have the same axes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from rbench.errors import StoreError
from rbench.report.figures import style
from rbench.schema.common import Strict
from rbench.score.statistics import wilson
from rbench.tables import Results
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.notes import spanned
from rbench.tables.table import Meaning, Number, average

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REFERENCE = "asl2024robustsentembed"


class Options(Strict):
    """What a suite may set."""

    panels: Literal["mean", "task"] = "mean"
    """`mean`: a panel for each attack, whose points are means over tasks (each task counts the same). `task`: a panel
    for each task and attack."""
    scale: Literal["linear", "log"] = "linear"
    """Of the axis of queries."""


class Point(NamedTuple):
    """An encoder under an attack, on one task or over several."""

    reduction: Number
    """Clean accuracy minus accuracy under attack, a share."""
    queries: Number
    """Average number of queries of the examples that were attacked."""


def draw(options: Options, results: Results) -> Figure:
    """Draw from the records. Raises StoreError where no classification task was attacked, or nothing is done."""
    of = grid(results)
    tasks = [task for task in of.tasks if any(c.task == task and _classifies(c) for c in of.cells.values())]
    groups = {"": tasks} if options.panels == "mean" else {task: [task] for task in tasks}
    names = list(dict.fromkeys((cell.encoder, cell.finetune) for cell in of.cells.values()))
    found: dict[str, dict[Name, Point]] = {}
    for task, group in groups.items():
        for attack in of.attacks:
            if points := _points(of, group, names, attack):
                found[f"{task}, {attack}" if task else attack] = points
    if not found:
        raise StoreError(_nothing(of, tasks, options))
    figure, panels = style.panels(list(found), columns=3, share_x=True, share_y=True)
    shown: dict[str, Artist] = {}
    for axes, points in zip(panels, found.values(), strict=True):
        lowest = style.is_lowest(axes, panels)
        _panel(axes, names, points, shown)
        if options.scale == "log":
            style.log(axes)
        axes.set_xlabel("Accuracy reduction (points)" if lowest else "")
        axes.tick_params(labelbottom=lowest)
        axes.set_ylabel("Average queries" if style.is_leftmost(axes) else "")
    style.legend(figure, [*shown.values()], [*shown])
    style.note(figure, _note(of, tasks, {title: {*points} for title, points in found.items()}, options))
    return figure


Name = tuple[str, str]
"""Encoder and fine-tuning strategy."""


def _points(of: Grid, tasks: Sequence[str], names: Sequence[Name], attack: str) -> dict[Name, Point]:
    """Return the points over these tasks. One that lacks a task has no point: it could not be compared with others."""
    points = {}
    for encoder, finetune in names:
        cells = [of.cells.get((attack, encoder, finetune, task)) for task in tasks]
        there = [c for c in cells if c is not None and c.pooled.attacked and not of.flags.hiding(c.jobs)]
        if there and len(there) == len(cells):
            points[encoder, finetune] = _mean([point(cell) for cell in there])
    return points


def point(cell: Cell) -> Point:
    """Return the point of one cell, in which at least one example was attacked.

    Clean accuracy minus accuracy under attack is the share of successes among all examples, so its interval is
    Wilson's. That of the mean number of queries is Student's t.
    """
    tally = cell.pooled
    share = wilson(tally.succeeded / cell.repeats, tally.total / cell.repeats)
    assert share is not None
    queries = Number.of(cell.sampled("queries"), cell.meaning("queries"))
    numbers = (Number(tally.succeeded / tally.total, True, tally.total, *share), queries)
    return Point(*(cell.results.flags.on(number, cell.jobs) for number in numbers))


def _mean(points: Sequence[Point]) -> Point:
    """Return the means over tasks. Their intervals cover the choice of examples within each task, and not of tasks."""
    scales = [Meaning("", "", percent=percent) for percent in (True, False)]
    reduction, queries = map(partial(average, intervals=True), zip(*points, strict=True), scales)
    assert reduction is not None and queries is not None
    return Point(reduction, queries)


def _panel(axes: Axes, names: Sequence[Name], points: Mapping[Name, Point], shown: dict[str, Artist]) -> None:
    """Draw one panel, and add the artists for the legend by label to `shown`."""
    several = len({finetune for _, finetune in names}) > 1
    for i, name in enumerate(names):
        label = ", ".join(name) if several else name[0]
        if name in points:
            shown.setdefault(label, style.point(axes, *points[name], index=i, label=label))


def _note(of: Grid, tasks: Sequence[str], found: Mapping[str, Collection[Name]], options: Options) -> str:
    """Return the note below the figure: over which tasks, what n is, which bars, what is missing."""
    cells = [cell for cell in of.cells.values() if cell.task in tasks]
    drawn = {(*name, title.rpartition(", ")[2]) for title, names in found.items() for name in names}
    shown = [cell for cell in cells if cell.present and (cell.encoder, cell.finetune, cell.attack) in drawn]
    over = f"Means over {style.named(', '.join(tasks))}. " if options.panels == "mean" and len(tasks) > 1 else ""
    over += f"Task {style.named(tasks[0])}. " if options.panels == "mean" and len(tasks) == 1 else ""
    said = f"{over}n of a task {spanned(cell.pooled.total for cell in shown)}; bars are 95% intervals."
    wanted = len({(c.encoder, c.finetune, c.attack) for c in cells}) * (1 if options.panels == "mean" else len(tasks))
    missing = wanted - sum(map(len, found.values()))
    said += f" Not drawn, since a task is not done or withheld: {missing} of {wanted} points." if missing else ""
    partial = sum(cell.partial for cell in shown)
    return said + (f" In {partial} cells some seeds are not done." if partial else "")


def _classifies(cell: Cell) -> bool:
    return any(not run.spec.task.of_kind.has_scores for run in cell.runs)


def _nothing(of: Grid, tasks: Sequence[str], options: Options) -> str:
    suite = of.plan.suite.name
    if not tasks:
        return f"the figure queries shows attacks on classification tasks, and suite {suite} has none."
    every = "on every task" if options.panels == "mean" and len(tasks) > 1 else ""
    remedy = "; with --option panels=task, each task has a panel of its own" if every else ""
    return (
        f"the figure queries has nothing to draw: no attack of suite {suite} is done {every}".rstrip()
        + f". Run the suite again, and draw it then{remedy}."
    )
