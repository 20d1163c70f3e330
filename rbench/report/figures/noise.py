"""Scores by the degree of noise: a panel for each kind and task, a curve with its band for each encoder.

The curves are those of the measure `noise`: the mean over draws, from the texts as they are at degree 0 to the highest
degree. With a defence, a thin dotted line shows the same encoder on normalised texts. RobTest (Chen et al. 2023) has
similar curves, over the degrees of its own attacks.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal

from rbench.measures._noise import NAME, NONE, NORMALISED, WORST
from rbench.measures.noise import NoiseScoreCell, build_cells, describe_unit, score_names
from rbench.report.figures import RunFigure, style
from rbench.schema import Strict
from rbench.tables import Results
from rbench.tables.cells import Grid
from rbench.tables.notes import format_range

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = tuple[str, str, str]
"""A panel: task, fine-tuning strategy and kind of noise."""
Curve = list[tuple[float, NoiseScoreCell]]
"""The points of a curve: degrees, ascending, each with its cell."""


class Options(Strict):
    """What a suite may set."""

    kind: str | None = None
    """The only kind to draw; None: all."""
    task: str | None = None
    """The only task to draw; None: all."""
    of: Literal["mean", "worst"] = "mean"
    """How the draws of a text count: by their mean, or by the draw that did the text the most harm."""


class NoiseFigure(RunFigure[Options]):
    title = "Scores by the degree of noise, kind by kind"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from what the measure stored. Raises StoreError where nothing is done."""
        noise_cells, name = build_cells(results), WORST if options.of == "worst" else NAME
        curves = _list_curves(noise_cells, options)
        score_by_task = score_names(noise_cells)
        titles = [_panel_title(noise_cells, place) for place in curves]
        figure, panels = style.panels(titles, columns=min(4, len(curves)), height=1.7, share_y=True)
        legend_entries: dict[str, Artist] = {}
        for axes, (place, curve_by_encoder) in zip(panels, curves.items(), strict=True):
            task, _, kind = place
            for encoder, curve in curve_by_encoder.items():
                index = noise_cells.encoders.index(encoder)  # an encoder has the same look in all panels
                legend_entries.setdefault(encoder, _draw_curve(axes, curve, name, index, encoder))
                _draw_defended(axes, _curve_points(noise_cells, place, encoder, NORMALISED), name, index)
            axes.set_xlabel(describe_unit(results, kind))
            if style.is_leftmost(axes):
                axes.set_ylabel(f"{score_by_task[task]} (%)")
        style.legend(figure, list(legend_entries.values()), list(legend_entries))
        all_curves = [curve for curve_by_encoder in curves.values() for curve in curve_by_encoder.values()]
        style.note(figure, _write_note(noise_cells, all_curves, name))
        return figure


def _list_curves(noise_cells: Grid[NoiseScoreCell], options: Options) -> dict[Place, dict[str, Curve]]:
    """Return the curves of each panel, by encoder. Panels without a curve are left out."""
    # The label of a kind at all degrees is its name alone: `typos`, beside `typos@0.1` and `typos@0.1+normalise`.
    kinds = [label for label in noise_cells.labels if "@" not in label and "+" not in label and label != NONE]
    curves: dict[Place, dict[str, Curve]] = {}
    for place in product(noise_cells.tasks, noise_cells.finetunes, kinds):
        task, _, kind = place
        if options.kind not in (None, kind) or options.task not in (None, task):
            continue
        by_encoder = {encoder: _curve_points(noise_cells, place, encoder) for encoder in noise_cells.encoders}
        done = {encoder: curve for encoder, curve in by_encoder.items() if curve}
        if done:
            curves[place] = done
    return curves


def _curve_points(noise_cells: Grid[NoiseScoreCell], place: Place, encoder: str, ending: str = "") -> Curve:
    """Return the points of a curve; none where a point is not done or withheld, or there is only one.

    Args:
        ending: the end of the labels, NORMALISED for normalised texts.
    """
    task, finetune, kind = place
    points = []
    for label in noise_cells.labels:
        label_kind, _, degree = label.partition("+")[0].partition("@")
        # NONE is the point at degree 0 of every kind. A kind without a degree stands for all degrees, and is no point.
        is_point = label_kind == NONE or (label_kind == kind and degree != "")
        label_ending = label[label.index("+") :] if "+" in label else ""
        cell = noise_cells.cells.get((task, finetune, label, encoder))
        if is_point and label_ending == ending and cell is not None:
            points.append((float(degree or 0), cell))
    all_done = all(cell.present and not noise_cells.flags.hiding(cell.jobs) for _, cell in points)
    return sorted(points, key=lambda point: point[0]) if all_done and len(points) > 1 else []


def _axis_values(curve: Curve, name: str) -> list[tuple[float, tuple[float, float] | None]]:
    """Return the value of each point on the axis, and its interval where it has one."""
    scores = [cell.score(name) for _, cell in curve]
    return [style.on_axis(score, True) for score in scores if score]


def _draw_curve(axes: Axes, curve: Curve, name: str, index: int, label: str) -> Artist:
    """Draw a curve with its band, and return what the legend shows."""
    degrees = [degree for degree, _ in curve]
    values, intervals = zip(*_axis_values(curve, name), strict=True)
    known_intervals = [interval for interval in intervals if interval is not None]
    if len(known_intervals) == len(degrees):
        low, high = zip(*known_intervals, strict=True)
        style.band(axes, degrees, low, high, index=index)
    curve_line: Artist = axes.plot(degrees, values, label=label, **style.look(index))[0]
    numbers = [cell.number(name) for _, cell in curve]
    if any(number is not None and number.flagged for number in numbers):
        style.flag(axes, degrees[-1], values[-1], index=index)
    return curve_line


def _draw_defended(axes: Axes, curve: Curve, name: str, index: int) -> None:
    """Draw the curve of normalised texts, if there is one, in the colour of the encoder."""
    if curve:
        degrees = [degree for degree, _ in curve]
        values = [value for value, _ in _axis_values(curve, name)]
        axes.plot(degrees, values, color=style.look(index)["color"], linewidth=0.8, linestyle=":")


def _panel_title(noise_cells: Grid[NoiseScoreCell], place: Place) -> str:
    """Return the kind of noise, with the task and the strategy where panels differ in them."""
    task, finetune, kind = place
    several_strategies = len({cell.finetune for cell in noise_cells.cells.values() if cell.task == task}) > 1
    parts = [kind]
    if len(noise_cells.tasks) > 1:
        parts.append(task)
    if several_strategies:
        parts.append(finetune)
    return ", ".join(parts)


def _write_note(noise_cells: Grid[NoiseScoreCell], curves: list[Curve], name: str) -> str:
    """Return the note below the figure: what is drawn, of how many texts, and what is missing."""
    scores = [cell.score(name) for curve in curves for _, cell in curve]
    sizes = format_range({score.n for score in scores if score is not None})
    drawn_value = "Of each text the worst draw" if name == WORST else "Mean over draws"
    sentences = f"{drawn_value}; degree 0: the texts as they are. n {sizes}; bands are 95% intervals."
    if any(label.endswith(NORMALISED) for label in noise_cells.labels):
        sentences += " Dotted: on normalised texts."
    jobs_not_done = {job.key for cell in noise_cells.cells.values() if not cell.present for job in cell.jobs}
    if jobs_not_done:
        sentences += f" Not done: {len(jobs_not_done)} jobs."
    return sentences
