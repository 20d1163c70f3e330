"""Share of texts that have fallen, by the words that it took: a panel for each task, a curve with its band a victim.

A text counts with the fewest words of any attack of the RUN. The curves are those of the measure `words`; the area
between 1 and a curve is what the metric `words_needed` adds to one word. Ours: no paper behind rbench draws them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.measures.words import FooledVictim, fooled_victims
from rbench.metrics.words_needed import LIMIT
from rbench.report.figures import RunFigure, style
from rbench.schema import Strict
from rbench.score import Proportion, make_score
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from rbench.tables.notes import format_range

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Options(Strict):
    """What a suite may set."""

    task: str | None = None
    """The only task to show; None: all."""
    most: int = LIMIT
    """Where the axis of words ends."""


class WordsFigure(RunFigure[Options]):
    title = "Texts that fall, by words needed"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from the outcomes. Raises StoreError where nothing is done, or outcomes are missing."""
        flags = attack_grid(results).flags
        victims = [
            cell
            for cell in fooled_victims(results).cells.values()
            if cell.present and options.task in (None, cell.task) and not flags.hiding(cell.jobs)
        ]
        tasks = list(dict.fromkeys(cell.task for cell in victims))
        several = len({cell.finetune for cell in victims}) > 1
        figure, axes = style.panels(tasks, columns=3, share_y=True)
        drawn: dict[str, Artist] = {}
        labels = list(dict.fromkeys(_label(cell, several) for cell in victims))
        for task, place in zip(tasks, axes, strict=True):
            for cell in (cell for cell in victims if cell.task == task):
                label = _label(cell, several)
                drawn.setdefault(label, _curve(place, cell, options.most, labels.index(label), label))
            place.set_ylim(0, 102)  # room for a line at 100
            place.set_xticks(range(1, options.most + 1))
            place.set_xlabel("Words")
            if style.is_leftmost(place):
                place.set_ylabel("Texts that fall (%)")
        style.legend(figure, [drawn[label] for label in labels], labels)
        sizes = format_range(len(cell.pooled().found) for cell in victims)
        style.note(figure, f"n of a curve {sizes}; bands are Wilson 95% intervals, at each number of words by itself.")
        return figure


def _label(cell: FooledVictim, several: bool) -> str:
    return f"{cell.encoder}, {cell.finetune}" if several else cell.encoder


def _curve(axes: Axes, cell: FooledVictim, most: int, index: int, label: str) -> Artist:
    """Draw one curve and its band, from one word on."""
    fewest, words = cell.pooled(), list(range(1, most + 1))
    shares = (Proportion(int(fewest.within(one).sum()), len(fewest.found)) for one in words)
    scores = [make_score("falls", share, cell.repeats) for share in shares]
    words, scores = [*words, most + 1], [*scores, scores[-1]]  # the last step has a width, too
    low, high = ([100 * (end or 0) for end in ends] for ends in zip(*((s.low, s.high) for s in scores), strict=True))
    style.band(axes, words, low, high, index=index, step="post")
    colours = {key: value for key, value in style.look(index).items() if key != "marker"}
    values = [100 * (score.value or 0) for score in scores]
    (line,) = axes.step(words, values, where="post", label=label, **colours)
    return line
