"""Heat maps of transferability (ADCL, Table 3): texts made against the victim of a row, judged by that of a column.

A panel is a task under an attack. A field shows the share in % of the texts that fool the judge, and their number n.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from rbench.errors import StoreError
from rbench.measures.transfer import NAME, TransferMatrix, build_matrices
from rbench.report.figures import RunFigure, style
from rbench.schema import Strict
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 2
"""Most panels side by side."""
LETTERS_IN_LINE = 22
"""Of a line of a victim's name."""
DARK_FROM = 0.55
"""Share from which numbers are written in white."""
_LEAST_WIDTH = 2.3
"""The least width of a panel on a sheet, in inches."""
_MOST_FLAT = 3
"""The most victims whose names lie side by side below a panel. More are turned."""
_HOW_TO_READ = (
    "A field is the share in % of the texts made against the victim of its row that fool the victim of its column, and "
    "n the number of these texts."
)


class Options(Strict):
    """Which matrices are drawn."""

    task: str | None = None
    """A task of the suite; None: all."""
    attack: str | None = None
    """The label of an attack of the suite; None: all."""
    among: Literal["all", "right"] = "all"
    """`all`: of all texts that fooled the row's victim. `right`: of those whose original the judge classifies
    correctly."""


class TransferFigure(RunFigure[Options]):
    title = "Transferability: heat maps of texts made against one victim, judged by every other (ADCL, Table 3)"
    reference = "meng2022selfsupervised"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw a heat map for each task and attack. Raises StoreError where there is none."""
        shown_matrices = [
            matrix
            for matrix in build_matrices(results)
            if options.task in (None, matrix.task) and options.attack in (None, matrix.attack)
        ]
        name = NAME if options.among == "all" else "right"
        height = max(2.2, 0.9 + 0.36 * max((len(matrix.victims) for matrix in shown_matrices), default=0))
        ticks = {
            victim: style.lines(style.named(victim), LETTERS_IN_LINE)
            for matrix in shown_matrices
            for victim in _victim_names(matrix)
        }
        if style.is_printed():
            columns, width = style.side_by_side(len(shown_matrices), MOST_COLUMNS, _LEAST_WIDTH)
            ticks, victim_key = _fit_ticks(shown_matrices, ticks, name, width / columns)
            height += max(map(style.text_width, ticks.values())) if len(ticks) > _MOST_FLAT else 0
            style.caption(_HOW_TO_READ + victim_key)
        figure, panels = style.panels(
            [""] * len(shown_matrices), columns=MOST_COLUMNS, height=height, least=_LEAST_WIDTH
        )
        for axes, matrix in zip(panels, shown_matrices, strict=True):
            _draw_matrix(
                axes, matrix, name, [ticks[victim] for victim in _victim_names(matrix)], first=style.is_leftmost(axes)
            )
        style.note(figure, "")
        return figure


def _victim_names(matrix: TransferMatrix) -> list[str]:
    several_strategies = len({finetune for _, finetune in matrix.victims}) > 1
    return [", ".join(victim) if several_strategies else victim[0] for victim in matrix.victims]


def _fit_ticks(
    shown_matrices: list[TransferMatrix], ticks: dict[str, str], name: str, inches: float
) -> tuple[dict[str, str], str]:
    """Return what stands for victims beside fields that have room for their numbers, and what the caption says of it.

    Victims are numbered where their names leave too little room. Raises StoreError where that does not help.

    Args:
        shown_matrices: the matrices.
        ticks: what stands for each victim.
        name: of the number in fields.
        inches: the width of a panel.
    """
    fields = [
        _field_text(matrix, name, i, j)
        for matrix in shown_matrices
        for i, _ in enumerate(matrix.victims)
        for j, _ in enumerate(matrix.victims)
    ]
    field_width = max(map(style.text_width, fields)) + 0.03
    most_victims = max(len(matrix.victims) for matrix in shown_matrices)

    def room(names: dict[str, str]) -> float:
        return (inches - 0.4 - max(map(style.text_width, names.values()))) / most_victims

    # Names of a few victims lie side by side, so a field must be as wide as the longest. Those of many are turned.
    label_width = 0.0 if most_victims > _MOST_FLAT else max(map(style.text_width, ticks.values())) + 0.05
    if room(ticks) >= max(field_width, label_width):
        return ticks, ""
    numbers = {victim: str(i) for i, victim in enumerate(ticks, 1)}
    if room(numbers) < field_width:
        raise StoreError(
            f"{most_victims} victims have no room in {inches:.1f} inches. Draw the figure wider (--width page), or of "
            "fewer encoders with --only"
        )
    return numbers, " Victims: " + ", ".join(f"{number} {victim}" for victim, number in numbers.items()) + "."


def _field_text(matrix: TransferMatrix, name: str, row: int, column: int) -> str:
    pair_number = matrix.pairs[matrix.victims[row], matrix.victims[column]].number(name)
    if pair_number is None or pair_number.value is None:
        return "–"
    return f"{pair_number.shown(pair_number.value)}{pair_number.signs}\nn={pair_number.n}"


def _draw_matrix(axes: Axes, matrix: TransferMatrix, name: str, names: list[str], *, first: bool) -> None:
    """Draw one matrix. Shades go from white to blue, which all readers tell apart and which prints in grey."""
    numbers = [[matrix.pairs[maker, judge].number(name) for judge in matrix.victims] for maker in matrix.victims]
    shares = [
        [math.nan if pair_number is None or pair_number.value is None else pair_number.value for pair_number in row]
        for row in numbers
    ]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            colour = "white" if share > DARK_FROM else "black"
            axes.text(j, i, _field_text(matrix, name, i, j), ha="center", va="center", fontsize=6, color=colour)
    style.panel_title(axes, f"{matrix.task}, {matrix.attack}")
    # Below a panel many names would overlap, so they are turned, unless numbers stand for them.
    turned = len(names) > _MOST_FLAT and max(map(len, names)) > 2
    axes.set_xticks(range(len(names)), names, fontsize=6, rotation=90 if turned else 0)
    axes.set_yticks(range(len(names)), names if first else [""] * len(names), fontsize=6)
    axes.set_xlabel("Judged by", fontsize=7)
    axes.set_ylabel("Made against" if first else "", fontsize=7)
    axes.grid(visible=False)
