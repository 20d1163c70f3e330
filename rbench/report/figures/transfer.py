"""Heat maps of transferability (ADCL, Table 3): texts made against the victim of a row, judged by that of a column.

A panel is a task under an attack. A field shows the share in % of the texts that fool the judge, and their number n.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from rbench.errors import StoreError
from rbench.measures.transfer import NAME, Matrix, matrices
from rbench.report.figures import style
from rbench.schema import Strict
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Transferability: heat maps of texts made against one victim, judged by every other (ADCL, Table 3)"
REFERENCE = "meng2022selfsupervised"
COLUMNS = 2
"""Most panels side by side."""
LETTERS = 22
"""Of a line of a victim's name."""
DARK = 0.55
"""Share from which numbers are written in white."""


class Options(Strict):
    """Which matrices are drawn."""

    task: str | None = None
    """A task of the suite; None: all."""
    attack: str | None = None
    """The label of an attack of the suite; None: all."""
    among: Literal["all", "right"] = "all"
    """`all`: of all texts that fooled the row's victim. `right`: of those whose original the judge classifies
    correctly."""


def draw(options: Options, results: Results) -> Figure:
    """Draw a heat map for each task and attack. Raises StoreError where there is none."""
    found = [
        matrix
        for matrix in matrices(results)
        if options.task in (None, matrix.task) and options.attack in (None, matrix.attack)
    ]
    if not found:
        raise StoreError(
            f"{results.root} has no transferability for task {options.task or 'any'} and attack "
            f"{options.attack or 'any'}; `rbench table RUN --metric transfer` shows what it has."
        )
    height = max(2.2, 0.9 + 0.36 * max(len(matrix.victims) for matrix in found))
    figure, panels = style.panels([""] * len(found), columns=COLUMNS, height=height)
    for i, (axes, matrix) in enumerate(zip(panels, found, strict=True)):
        _panel(axes, matrix, NAME if options.among == "all" else "right", first=i % COLUMNS == 0)
    style.note(figure, "")
    return figure


def _panel(axes: Axes, matrix: Matrix, name: str, *, first: bool) -> None:
    """Draw one matrix. Shades go from white to blue, which all readers tell apart and which prints in grey."""
    several = len({finetune for _, finetune in matrix.victims}) > 1
    victims = [", ".join(victim) if several else victim[0] for victim in matrix.victims]
    names = [style.lines(style.named(victim), LETTERS) for victim in victims]
    numbers = [[matrix.pairs[maker, judge].number(name) for judge in matrix.victims] for maker in matrix.victims]
    shares = [[math.nan if one is None or one.value is None else one.value for one in row] for row in numbers]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, row in enumerate(numbers):
        for j, one in enumerate(row):
            share = one.value if one is not None else None
            shown = f"{one.shown(share)}{one.signs}\nn={one.n}" if one is not None and share is not None else "–"
            colour = "white" if (share or 0) > DARK else "black"
            axes.text(j, i, shown, ha="center", va="center", fontsize=6, color=colour)
    style.panel_title(axes, f"{matrix.task}, {matrix.attack}")
    many = len(names) > 3
    axes.set_xticks(range(len(names)), names, fontsize=6, rotation=90 if many else 0)
    axes.set_yticks(range(len(names)), names if first else [""] * len(names), fontsize=6)
    axes.set_xlabel("Judged by", fontsize=7)
    axes.set_ylabel("Made against" if first else "", fontsize=7)
    axes.grid(visible=False)
