"""Average queries against the loss of accuracy under attack (RobustSentEmbed, Figure 2).

A panel is an attack, and a point in it an encoder. Further to the left the encoder loses less accuracy to the attack,
and further up the attack needs more queries. So robust encoders are at the top left, as in the paper. All panels have
the same axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rbench.report.figures import RunFigure, style
from rbench.schema.common import Strict
from rbench.score.statistics import wilson
from rbench.tables import Results
from rbench.tables.aggregate import AttackCell, AttackGrid, attack_grid
from rbench.tables.notes import format_range
from rbench.tables.table import Meaning, Number, average_entries

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Options(Strict):
    """What a suite may set."""

    panels: Literal["mean", "task"] = "mean"
    """`mean`: a panel for each attack. Its points are means over tasks, each of which counts the same. `task`: a panel
    for each task and attack."""
    scale: Literal["linear", "log"] = "linear"
    """The scale of the axis of queries."""


VictimName = tuple[str, str]
"""Encoder and fine-tuning strategy."""


class QueryPoint(NamedTuple):
    """The place of a victim in the panel of an attack: its numbers on one task, or their means over several."""

    reduction: Number
    """Clean accuracy minus accuracy under attack, a share."""
    queries: Number
    """Average number of queries of the examples that were attacked."""


class QueriesFigure(RunFigure[Options]):
    reference = "asl2024robustsentembed"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from the records. Raises StoreError where no classification task was attacked, or nothing is done."""
        attack_cells = attack_grid(results)
        classified = {cell.task for cell in attack_cells.cells.values() if _is_classification(cell)}
        tasks = [task for task in attack_cells.tasks if task in classified]
        tasks_by_panel_group = {"": tasks} if options.panels == "mean" else {task: [task] for task in tasks}
        victims = list(dict.fromkeys((cell.encoder, cell.finetune) for cell in attack_cells.cells.values()))
        panels_with_points: list[_Panel] = []
        for group, tasks_of_panel in tasks_by_panel_group.items():
            for attack in attack_cells.attacks:
                points = _points_by_victim(attack_cells, tasks_of_panel, victims, attack)
                if points:
                    panels_with_points.append(_Panel(f"{group}, {attack}" if group else attack, attack, points))
        titles = [panel.title for panel in panels_with_points]
        figure, all_axes = style.panels(titles, columns=3, share_x=True, share_y=True)
        artists: dict[str, Artist] = {}
        for axes, panel in zip(all_axes, panels_with_points, strict=True):
            lowest = style.is_lowest(axes, all_axes)
            _draw_points(axes, victims, panel.points, artists)
            if options.scale == "log":
                style.log(axes)
            axes.set_xlabel("Accuracy reduction (points)" if lowest else "")
            axes.tick_params(labelbottom=lowest)
            axes.set_ylabel("Average queries" if style.is_leftmost(axes) else "")
        style.legend(figure, [*artists.values()], [*artists])
        style.note(figure, _write_note(attack_cells, tasks, panels_with_points, options))
        return figure


class _Panel(NamedTuple):
    title: str
    attack: str
    points: Mapping[VictimName, QueryPoint]


def _points_by_victim(
    attack_cells: AttackGrid, tasks: Sequence[str], victims: Sequence[VictimName], attack: str
) -> dict[VictimName, QueryPoint]:
    """Return the points of an attack, as means over these tasks.

    A victim without a number on one of the tasks has no point: its mean would be over easier or harder tasks than those
    of the others.
    """
    points = {}
    for encoder, finetune in victims:
        cells = [attack_cells.cells.get((attack, encoder, finetune, task)) for task in tasks]
        task_points = [make_point(cell) for cell in cells if cell is not None and _has_point(cell)]
        if task_points and len(task_points) == len(tasks):
            points[encoder, finetune] = _mean_point(task_points)
    return points


def _has_point(cell: AttackCell) -> bool:
    """Return whether a cell has numbers, and whether they may be shown."""
    return bool(cell.pooled.attacked) and not cell.results.flags.hiding(cell.jobs)


def make_point(cell: AttackCell) -> QueryPoint:
    """Return the point of one cell, in which at least one example was attacked.

    Clean accuracy minus accuracy under attack is the share of successes among all examples, so its interval is
    Wilson's. That of the mean number of queries is Student's t.
    """
    tally = cell.pooled
    # Seeds that attack the same texts are no new texts, and the interval must not become narrower with them.
    limits = wilson(tally.succeeded / cell.repeats, tally.total / cell.repeats)
    assert limits is not None
    low, high = limits
    reduction = Number(tally.succeeded / tally.total, percent=True, n=tally.total, low=low, high=high)
    queries = Number.of(cell.sampled("queries"), cell.meaning("queries"))
    flags = cell.results.flags
    return QueryPoint(flags.on(reduction, cell.jobs), flags.on(queries, cell.jobs))


def _mean_point(points: Sequence[QueryPoint]) -> QueryPoint:
    """Return the means over tasks. Their intervals cover the choice of examples within each task, and not of tasks."""
    reductions = [point.reduction for point in points]
    reduction = average_entries(reductions, Meaning("", "", percent=True), intervals=True)
    queries = average_entries([point.queries for point in points], Meaning("", "", percent=False), intervals=True)
    assert reduction is not None and queries is not None
    return QueryPoint(reduction, queries)


def _draw_points(
    axes: Axes, victims: Sequence[VictimName], points: Mapping[VictimName, QueryPoint], artists: dict[str, Artist]
) -> None:
    """Draw the points of one panel. Add to `artists`, by label, those that the legend does not have yet."""
    several_strategies = len({finetune for _, finetune in victims}) > 1
    for i, victim in enumerate(victims):
        label = ", ".join(victim) if several_strategies else victim[0]
        if victim in points:
            artists.setdefault(label, style.point(axes, *points[victim], index=i, label=label))


def _write_note(attack_cells: AttackGrid, tasks: Sequence[str], panels: Sequence[_Panel], options: Options) -> str:
    """Return the note below the figure: over which tasks, what n is, which bars, what is missing."""
    cells = [cell for cell in attack_cells.cells.values() if cell.task in tasks]
    drawn = {(*victim, panel.attack) for panel in panels for victim in panel.points}
    shown = [cell for cell in cells if cell.present and (cell.encoder, cell.finetune, cell.attack) in drawn]
    sentences = []
    if options.panels == "mean" and len(tasks) > 1:
        sentences.append(f"Means over {style.named(', '.join(tasks))}.")
    elif options.panels == "mean" and tasks:
        sentences.append(f"Task {style.named(tasks[0])}.")
    sentences.append(f"n of a task {format_range(cell.pooled.total for cell in shown)}; bars are 95% intervals.")
    attacked_victims = {(cell.encoder, cell.finetune, cell.attack) for cell in cells}
    num_wanted = len(attacked_victims) * (1 if options.panels == "mean" else len(tasks))
    num_missing = num_wanted - sum(len(panel.points) for panel in panels)
    if num_missing:
        sentences.append(f"Not drawn, since a task is not done or withheld: {num_missing} of {num_wanted} points.")
    num_partial = sum(cell.partial for cell in shown)
    if num_partial:
        sentences.append(f"In {num_partial} cells some seeds are not done.")
    return " ".join(sentences)


def _is_classification(cell: AttackCell) -> bool:
    return any(not run.spec.task.of_kind.has_scores for run in cell.runs)
