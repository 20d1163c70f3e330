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
_LEAST = 2.3
"""The least width of a panel on a sheet, in inches."""
_FLAT = 3
"""The most victims whose names lie side by side below a panel. More are turned."""
_READ = (
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
    name = NAME if options.among == "all" else "right"
    height = max(2.2, 0.9 + 0.36 * max(len(matrix.victims) for matrix in found))
    ticks = {victim: style.lines(style.named(victim), LETTERS) for matrix in found for victim in _victims(matrix)}
    if style.is_printed():
        wide, width = style.side_by_side(len(found), COLUMNS, _LEAST)
        ticks, key = _printed(found, ticks, name, width / wide)
        height += max(map(style.text_width, ticks.values())) if len(ticks) > _FLAT else 0
        style.caption(_READ + key)
    figure, panels = style.panels([""] * len(found), columns=COLUMNS, height=height, least=_LEAST)
    for axes, matrix in zip(panels, found, strict=True):
        _panel(axes, matrix, name, [ticks[victim] for victim in _victims(matrix)], first=style.is_leftmost(axes))
    style.note(figure, "")
    return figure


def _victims(matrix: Matrix) -> list[str]:
    several = len({finetune for _, finetune in matrix.victims}) > 1
    return [", ".join(victim) if several else victim[0] for victim in matrix.victims]


def _printed(found: list[Matrix], ticks: dict[str, str], name: str, inches: float) -> tuple[dict[str, str], str]:
    """Return what stands for victims beside fields that have room for their numbers, and what the caption says of it.

    Victims are numbered where their names leave too little room. Raises StoreError where that does not help.

    Args:
        found: the matrices.
        ticks: what stands for each victim.
        name: of the number in fields.
        inches: the width of a panel.
    """
    fields = [
        _field(matrix, name, i, j)
        for matrix in found
        for i, _ in enumerate(matrix.victims)
        for j, _ in enumerate(matrix.victims)
    ]
    wide = max(map(style.text_width, fields)) + 0.03
    most = max(len(matrix.victims) for matrix in found)

    def room(names: dict[str, str]) -> float:
        return (inches - 0.4 - max(map(style.text_width, names.values()))) / most

    flat = 0.0 if most > _FLAT else max(map(style.text_width, ticks.values())) + 0.05  # names lie side by side
    if room(ticks) >= max(wide, flat):
        return ticks, ""
    numbers = {victim: str(i) for i, victim in enumerate(ticks, 1)}
    if room(numbers) < wide:
        raise StoreError(
            f"{most} victims have no room in {inches:.1f} inches. Draw the figure wider (--width page), or of fewer "
            "encoders with --only"
        )
    return numbers, " Victims: " + ", ".join(f"{number} {victim}" for victim, number in numbers.items()) + "."


def _field(matrix: Matrix, name: str, row: int, column: int) -> str:
    one = matrix.pairs[matrix.victims[row], matrix.victims[column]].number(name)
    share = one.value if one is not None else None
    return f"{one.shown(share)}{one.signs}\nn={one.n}" if one is not None and share is not None else "–"


def _panel(axes: Axes, matrix: Matrix, name: str, names: list[str], *, first: bool) -> None:
    """Draw one matrix. Shades go from white to blue, which all readers tell apart and which prints in grey."""
    numbers = [[matrix.pairs[maker, judge].number(name) for judge in matrix.victims] for maker in matrix.victims]
    shares = [[math.nan if one is None or one.value is None else one.value for one in row] for row in numbers]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            colour = "white" if share > DARK else "black"
            axes.text(j, i, _field(matrix, name, i, j), ha="center", va="center", fontsize=6, color=colour)
    style.panel_title(axes, f"{matrix.task}, {matrix.attack}")
    many = len(names) > _FLAT and max(map(len, names)) > 2
    axes.set_xticks(range(len(names)), names, fontsize=6, rotation=90 if many else 0)
    axes.set_yticks(range(len(names)), names if first else [""] * len(names), fontsize=6)
    axes.set_xlabel("Judged by", fontsize=7)
    axes.set_ylabel("Made against" if first else "", fontsize=7)
    axes.grid(visible=False)
