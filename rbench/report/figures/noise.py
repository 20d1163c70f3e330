"""Scores by the degree of noise: a panel for each kind and task, a curve with its band for each encoder.

The curves are those of the measure `noise`: the mean over draws, from the texts as they are at degree 0 to the highest
degree. With a defence, a thin dotted line shows the same encoder on normalised texts. The figure is ours; RobTest (Chen
et al. 2023) has curves over degrees of its own attacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rbench.config.registry import unknown
from rbench.errors import StoreError
from rbench.measures._noise import NAME, NONE, NORMALISED, WORST
from rbench.measures.noise import NoiseCell, cells, scores_of, unit_of
from rbench.report.figures import style
from rbench.schema import Strict
from rbench.tables import Results
from rbench.tables.cells import Grid
from rbench.tables.notes import spanned

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Scores by the degree of noise, kind by kind"


class Options(Strict):
    """What a suite may set."""

    kind: str | None = None
    """The only kind to draw; None: all."""
    task: str | None = None
    """The only task to draw; None: all."""
    of: Literal["mean", "worst"] = "mean"
    """Of the draws: their mean, or of each text the one that did it the most harm."""


def draw(options: Options, results: Results) -> Figure:
    """Draw from what the measure stored. StoreError where nothing is done, or a name is unknown."""
    of, name = cells(results), WORST if options.of == "worst" else NAME
    kinds = [label for label in of.labels if "@" not in label and "+" not in label and label != NONE]
    for what, asked, there in (("kind of noise", options.kind, kinds), ("task", options.task, list(of.tasks))):
        if asked is not None and asked not in there:
            raise StoreError(unknown(what, asked, set(there)))
    places = [
        (task, finetune, kind)
        for task in of.tasks
        for finetune in of.finetunes
        for kind in kinds
        if options.kind in (None, kind) and options.task in (None, task)
    ]
    curves = {(*place, one): curve for place in places for one in of.encoders if (curve := _curve(of, place, one))}
    if not curves:
        raise StoreError(
            "the figure noise has nothing to draw: no measurement under noise is done, or all are withheld for their "
            "flags. Run the suite again, and draw it then."
        )
    places = [place for place in places if any((*place, one) in curves for one in of.encoders)]
    titles, scores = [_title(of, place) for place in places], scores_of(of)
    figure, panels = style.panels(titles, columns=min(4, len(places)), height=1.7, share_y=True)
    entries: dict[str, Artist] = {}
    for axes, place in zip(panels, places, strict=True):
        for index, encoder in enumerate(of.encoders):
            if (*place, encoder) in curves:
                entries.setdefault(encoder, _drawn(axes, curves[*place, encoder], name, index, encoder))
                _defended(axes, _curve(of, place, encoder, NORMALISED), name, index)
        axes.set_xlabel(unit_of(results, place[2]))
        if style.is_leftmost(axes):
            axes.set_ylabel(f"{scores[place[0]]} (%)")
    style.legend(figure, list(entries.values()), list(entries))
    style.note(figure, _note(of, list(curves.values()), name))
    return figure


def _curve(
    of: Grid[NoiseCell], place: tuple[str, str, str], encoder: str, defence: str = ""
) -> list[tuple[float, NoiseCell]]:
    """Return the points of a curve, by degree; none where nothing is done, or it is withheld."""
    task, finetune, kind = place
    found = []
    for label in of.labels:
        base, _, after = label.partition("+")
        own, _, degree = base.partition("@")
        cell = of.cells.get((task, finetune, label, encoder))
        if f"+{after}" == (defence or "+") and (own == NONE or (own == kind and degree)) and cell is not None:
            found.append((float(degree or 0), cell))
    there = all(cell.present and not of.flags.hiding(cell.jobs) for _, cell in found)
    return sorted(found, key=lambda point: point[0]) if there and len(found) > 1 else []


def _drawn(axes: Axes, curve: list[tuple[float, NoiseCell]], name: str, index: int, label: str) -> Artist:
    """Draw a curve with its band, and return what the legend shows."""
    values, intervals = zip(
        *(style.on_axis(score, True) for _, cell in curve if (score := cell.score(name))), strict=True
    )
    degrees = [degree for degree, _ in curve]
    low, high = ([one[i] for one in intervals if one is not None] for i in (0, 1))
    if len(low) == len(degrees):
        style.band(axes, degrees, low, high, index=index)
    drawn: Artist = axes.plot(degrees, values, label=label, **style.look(index))[0]
    if any((number := cell.number(name)) is not None and number.flagged for _, cell in curve):
        style.flag(axes, degrees[-1], values[-1], index=index)
    return drawn


def _defended(axes: Axes, curve: list[tuple[float, NoiseCell]], name: str, index: int) -> None:
    """Draw the curve of normalised texts."""
    if curve:
        values = [style.on_axis(score, True)[0] for _, cell in curve if (score := cell.score(name))]
        axes.plot([at for at, _ in curve], values, color=style.look(index)["color"], linewidth=0.8, linestyle=":")


def _title(of: Grid[NoiseCell], place: tuple[str, str, str]) -> str:
    task, finetune, kind = place
    several = len({cell.finetune for cell in of.cells.values() if cell.task == task}) > 1
    return ", ".join([kind, *([task] if len(of.tasks) > 1 else []), *([finetune] if several else [])])


def _note(of: Grid[NoiseCell], curves: list[list[tuple[float, NoiseCell]]], name: str) -> str:
    """Return the note below the figure: what is drawn, of how many texts, and what is missing."""
    all_of = [cell for curve in curves for _, cell in curve]
    sizes = spanned({score.n for cell in all_of if (score := cell.score(name)) is not None})
    what = "Of each text the worst draw" if name == WORST else "Mean over draws"
    said = f"{what}; degree 0: the texts as they are. n {sizes}; bands are 95% intervals."
    if any(label.endswith(NORMALISED) for label in of.labels):
        said += " Dotted: on normalised texts."
    absent = [cell for cell in of.cells.values() if not cell.present]
    return said + (f" Not done: {len({job.key for cell in absent for job in cell.jobs})} jobs." if absent else "")
