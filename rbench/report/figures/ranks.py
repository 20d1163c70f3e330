"""What `rbench eval` ranks by, against accuracy before attacks: one panel, a mark for each model with both intervals.

The numbers are those of the table `ranks`: means over the attacks and tasks that all models have. A model without a
place is drawn, and flagged. Ours: no paper behind rbench draws it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.errors import StoreError
from rbench.report.figures import RunFigure, style
from rbench.schema import Strict
from rbench.score.paired import DifferenceEstimate
from rbench.tables import Results
from rbench.tables.notes import format_range
from rbench.tables.table import Number
from rbench.verdicts import ranks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Options(Strict):
    """It has none."""


class RanksFigure(RunFigure[Options]):
    title = "Accuracy under attack, the mean over attacks and tasks, and clean accuracy of the same texts"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from what is ranked. Raises StoreError where no model has both numbers."""
        marks = [
            (entry.name, _number(entry.value, entry), _number(entry.clean, entry))
            for entry in ranks.rank_models(results, compared=False).entries
            if entry.value is not None and entry.clean is not None
        ]
        if not marks:
            raise StoreError(f"no attack of {results.root} is done on all tasks. Run the suite again, and draw it then")
        figure, (axes,) = style.panels([""])
        drawn = [style.point(axes, under, clean, index=i, label=name) for i, (name, under, clean) in enumerate(marks)]
        axes.set_xlabel(style.axis(results.metrics.asked(ranks.METRIC).about))
        axes.set_ylabel(style.axis(results.metrics.asked(ranks.CLEAN).about))
        style.legend(figure, drawn, [name for name, *_ in marks])
        sizes = format_range(under.n for _, under, _ in marks if under.n is not None)
        style.note(figure, f"n of a model {sizes}; bars are 95% intervals of each number by itself.")
        return figure


def _number(mean: DifferenceEstimate, entry: ranks.RankedContestant) -> Number:
    return Number(mean.value, True, mean.n, mean.low, mean.high, flagged=entry.place is None)
