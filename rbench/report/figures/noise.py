"""Scores by the degree of noise: a panel for each kind and task, a curve with its band for each encoder.

The curves are those of the measure `noise`: the mean over draws, from the texts as they are at degree 0 to the highest
degree. With a defence, a thin dotted line shows the same encoder on normalised texts. The figure is ours; RobTest (Chen
et al. 2023) has curves over degrees of its own attacks.
"""

from __future__ import annotations

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


class Options(Strict):
    """What a suite may set."""

    kind: str | None = None
    """The only kind to draw; None: all."""
    task: str | None = None
    """The only task to draw; None: all."""
    of: Literal["mean", "worst"] = "mean"
    """Of the draws: their mean, or of each text the one that did it the most harm."""


class NoiseFigure(RunFigure[Options]):
    title = "Scores by the degree of noise, kind by kind"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from what the measure stored. Raises StoreError where nothing is done."""
        noise_cells, name = build_cells(results), WORST if options.of == "worst" else NAME
        kinds = [label for label in noise_cells.labels if "@" not in label and "+" not in label and label != NONE]
        places = [
            (task, finetune, kind)
            for task in noise_cells.tasks
            for finetune in noise_cells.finetunes
            for kind in kinds
            if options.kind in (None, kind) and options.task in (None, task)
        ]
        curves = {
            (*place, encoder_name): curve
            for place in places
            for encoder_name in noise_cells.encoders
            if (curve := _curve_points(noise_cells, place, encoder_name))
        }
        places = [
            place for place in places if any((*place, encoder_name) in curves for encoder_name in noise_cells.encoders)
        ]
        titles, scores = [_panel_title(noise_cells, place) for place in places], score_names(noise_cells)
        figure, panels = style.panels(titles, columns=min(4, len(places)), height=1.7, share_y=True)
        entries: dict[str, Artist] = {}
        for axes, place in zip(panels, places, strict=True):
            for index, encoder in enumerate(noise_cells.encoders):
                if (*place, encoder) in curves:
                    entries.setdefault(encoder, _draw_curve(axes, curves[*place, encoder], name, index, encoder))
                    _draw_defended(axes, _curve_points(noise_cells, place, encoder, NORMALISED), name, index)
            axes.set_xlabel(describe_unit(results, place[2]))
            if style.is_leftmost(axes):
                axes.set_ylabel(f"{scores[place[0]]} (%)")
        style.legend(figure, list(entries.values()), list(entries))
        style.note(figure, _write_note(noise_cells, list(curves.values()), name))
        return figure


def _curve_points(
    noise_cells: Grid[NoiseScoreCell], place: tuple[str, str, str], encoder: str, defence: str = ""
) -> list[tuple[float, NoiseScoreCell]]:
    """Return the points of a curve, by degree; none where nothing is done, or it is withheld."""
    task, finetune, kind = place
    points = []
    for label in noise_cells.labels:
        base, _, defence_of_label = label.partition("+")
        noise_kind, _, degree = base.partition("@")
        cell = noise_cells.cells.get((task, finetune, label, encoder))
        # Labels are `typos@0.1`, with a defence `typos@0.1+normalised`, and NONE for the texts as they are.
        same_defence = f"+{defence_of_label}" == (defence or "+")
        same_kind = noise_kind == NONE or (noise_kind == kind and degree)
        if same_defence and same_kind and cell is not None:
            points.append((float(degree or 0), cell))
    all_done = all(cell.present and not noise_cells.flags.hiding(cell.jobs) for _, cell in points)
    return sorted(points, key=lambda point: point[0]) if all_done and len(points) > 1 else []


def _draw_curve(axes: Axes, curve: list[tuple[float, NoiseScoreCell]], name: str, index: int, label: str) -> Artist:
    """Draw a curve with its band, and return what the legend shows."""
    values, intervals = zip(
        *(style.on_axis(score, True) for _, cell in curve if (score := cell.score(name))), strict=True
    )
    degrees = [degree for degree, _ in curve]
    low, high = ([interval[i] for interval in intervals if interval is not None] for i in (0, 1))
    if len(low) == len(degrees):
        style.band(axes, degrees, low, high, index=index)
    curve_line: Artist = axes.plot(degrees, values, label=label, **style.look(index))[0]
    if any((number := cell.number(name)) is not None and number.flagged for _, cell in curve):
        style.flag(axes, degrees[-1], values[-1], index=index)
    return curve_line


def _draw_defended(axes: Axes, curve: list[tuple[float, NoiseScoreCell]], name: str, index: int) -> None:
    """Draw the curve of normalised texts."""
    if curve:
        values = [style.on_axis(score, True)[0] for _, cell in curve if (score := cell.score(name))]
        axes.plot(
            [degree for degree, _ in curve], values, color=style.look(index)["color"], linewidth=0.8, linestyle=":"
        )


def _panel_title(noise_cells: Grid[NoiseScoreCell], place: tuple[str, str, str]) -> str:
    task, finetune, kind = place
    several_strategies = len({cell.finetune for cell in noise_cells.cells.values() if cell.task == task}) > 1
    return ", ".join(
        [kind, *([task] if len(noise_cells.tasks) > 1 else []), *([finetune] if several_strategies else [])]
    )


def _write_note(noise_cells: Grid[NoiseScoreCell], curves: list[list[tuple[float, NoiseScoreCell]]], name: str) -> str:
    """Return the note below the figure: what is drawn, of how many texts, and what is missing."""
    drawn_cells = [cell for curve in curves for _, cell in curve]
    sizes = format_range({score.n for cell in drawn_cells if (score := cell.score(name)) is not None})
    drawn_value = "Of each text the worst draw" if name == WORST else "Mean over draws"
    sentences = f"{drawn_value}; degree 0: the texts as they are. n {sizes}; bands are 95% intervals."
    if any(label.endswith(NORMALISED) for label in noise_cells.labels):
        sentences += " Dotted: on normalised texts."
    not_done = [cell for cell in noise_cells.cells.values() if not cell.present]
    return sentences + (
        f" Not done: {len({job.key for cell in not_done for job in cell.jobs})} jobs." if not_done else ""
    )
