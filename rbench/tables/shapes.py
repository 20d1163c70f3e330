"""The shapes of a table that is arranged for a paper, and how wide and high they are.

Widths are those of Computer Modern at ten points, which most fonts of papers do not exceed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Literal, get_args

from rbench.tables.table import Side

GAP = 8.0
"""Points between columns, in letters of ten points: twice `\\tabcolsep`. A room may have less."""
ABSENT = "–"
DIGITS = re.compile(r"[-+]?\d+(\.\d+)?")
_BOLD, _SMALL = 1.15, 0.82
"""Widths of bold letters and of the small letters of intervals, as shares of those of plain letters."""
_LOW = 0.8
"""The height of a line of intervals, in lines of text."""
_WIDTHS: Mapping[str, float] = {
    char: points
    for chars, points in {
        "ijl.,:;'!|[]": 2.78, " -f": 3.34, "jI": 3.62, "()rst†‡": 3.95, "cez": 4.45, "ago0123456789/*?": 5.0,
        "vxykq": 5.28,
        "–$#\"": 5.57, "J": 5.15, "S": 5.56, "ZL_": 6.26, "FEP": 6.81, "BCTR": 7.37, "wAHNUXYD": 7.64,
        "GKOQV+=<>&~±×≤≥↑↓": 7.86, "m%@": 8.34, "M": 9.17, "—": 10.0, "W": 10.3,
    }.items()
    for char in chars
}  # fmt: skip
"""Those of cmr10, in points, of the widest letter of each group."""


@cache
def wide(text: str) -> float:
    """Return about how wide a text is, in points; rather too wide."""
    return math.fsum(_WIDTHS.get(char, 5.57 if char.islower() else 7.64) for char in text)


Place = Literal["behind", "small", "below"]
"""Where what belongs to a number stands, such as its interval: behind it, behind it in small letters, or below it."""
PLACES: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True)
class Cell:
    """An entry, not escaped."""

    text: str
    """A number as shown, or words."""
    more: str = ""
    """What stands behind a number: an interval, `[45.0, 57.3]`, or what follows a ±."""
    place: Place = "behind"
    """Where `more` stands."""
    rounded: tuple[str, str] | None = None
    """`text` and `more` with a digit less, where the interval is wider than that digit."""
    sign: str = ""
    """Signs behind the number."""
    bold: bool = False
    letter: str = ""
    """That of a note below."""
    pieces: tuple[tuple[str, bool], ...] = ()
    """Those of a marked text, in place of `text`."""
    colour: str = ""
    wraps: bool = False
    """Whether its line may be broken."""
    raised: bool = False
    """Whether lines after its first take no room."""

    @cached_property
    def wide(self) -> float:
        own = (wide(self.text) + wide(self.sign) * _SMALL) * (_BOLD if self.bold else 1) + (4 if self.letter else 0)
        return max(own, self.beside) if self.place == "below" else own + self.beside

    @property
    def beside(self) -> float:
        """How wide `more` is, with the space before it."""
        if not self.more:
            return 0
        return 2 + wide(self.more) if self.place == "behind" else wide(self.more) * _SMALL


@dataclass(frozen=True)
class Grid:
    """A table before it is arranged."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    groups: Sequence[int]
    """The rows before which there is a line."""
    sides: Sequence[Side]
    """How each column is set."""
    names: int
    """How many of the first columns hold names."""
    grouped: bool = False
    """Whether the first column names groups of rows, such as attacks, and is empty where it repeats the row above."""
    above: Sequence[str] = ()
    """What stands above the entries of the header, such as the metric; equal neighbours are one."""
    gap: float = GAP
    """Points between columns."""

    def __post_init__(self) -> None:
        columns = {len(self.header), len(self.sides), *map(len, self.rows)}
        if len(columns) > 1:  # LaTeX would say `Extra alignment tab`, or nothing, and only to who compiles the table
            raise ValueError(f"header, rows and alignment have {sorted(columns)} columns; they must have the same")

    def of_columns(self, kept: Sequence[int]) -> Grid:
        """Return the table with some of its columns."""
        return replace(
            self,
            header=[self.header[i] for i in kept],
            rows=[[row[i] for i in kept] for row in self.rows],
            sides=[self.sides[i] for i in kept],
            names=sum(i < self.names for i in kept),
            above=[self.above[i] for i in kept] if self.above else (),
        )


@dataclass(frozen=True)
class Head:
    """An entry of the header."""

    lines: tuple[str, ...]
    span: int = 1
    letter: str = ""
    """That of a note below."""

    @cached_property
    def wide(self) -> float:
        return max(map(wide, self.lines), default=0) + (4 if self.letter else 0)


@dataclass(frozen=True)
class Form:
    """How a column is set."""

    side: Side
    digits: int | None = None
    """Of numbers that are aligned by their points: how many stand behind it, at most."""
    more: int = 0
    """The most characters that stand behind a number; 0: none do."""
    sign: int = 0
    """The most signs that stand behind a number."""
    width: float | None = None
    """Points of a column whose entries may have several lines."""


@dataclass(frozen=True)
class Shown:
    """A block of the table as it is arranged."""

    heads: tuple[tuple[Head, ...], ...]
    rows: tuple[tuple[Cell, ...], ...]
    forms: tuple[Form, ...]
    groups: tuple[int, ...] = ()
    titles: Mapping[int, Cell] = field(default_factory=dict)
    """What stands above a row, by the row that follows."""
    gap: float = GAP
    """Points between columns."""

    @property
    def head_lines(self) -> int:
        return sum(max((len(head.lines) for head in heads), default=1) for heads in self.heads)

    def below(self, row: int) -> bool:
        """Whether intervals stand below the numbers of a row."""
        return any(cell.more and cell.place == "below" for cell in self.rows[row])

    @cached_property
    def widths(self) -> list[float]:
        """How wide each column is."""
        return [
            form.width if form.width is not None else max([row[i].wide for row in self.rows] or [0])
            for i, form in enumerate(self.forms)
        ]

    @cached_property
    def wide(self) -> float:
        widths = [*self.widths]
        for heads in reversed(self.heads):  # the last line of the header first: those above span its columns
            at = 0
            for head in heads:
                own = math.fsum(widths[at : at + head.span]) + self.gap * (head.span - 1)
                widths[at] += max(0, head.wide - own)
                at += head.span
        total = math.fsum(widths) + self.gap * (len(widths) - 1)
        return max(total, *(title.wide for title in self.titles.values()), 0)

    @property
    def lines_in_all(self) -> float:
        """Return the height of header, rows and rules in lines of text."""
        return self.head_lines + 1.5 + self.height(0, len(self.rows))

    @cached_property
    def _lines(self) -> list[float]:
        return [self.lines(row) for row in range(len(self.rows))]

    def lines(self, row: int) -> float:
        """How many lines a row takes."""
        of = zip(self.rows[row], self.forms, strict=True)
        broken = [(cell.wide, form.width) for cell, form in of if form.width and cell.wide > form.width]
        own = max([1, *(math.ceil(1.2 * wide / width) for wide, width in broken)])
        return max(own, 1 + _LOW) if self.below(row) else own

    def height(self, start: int, end: int) -> float:
        """Return the height of some rows in lines of text. A rule takes half a line."""
        between = sum(start < group < end for group in self.groups) / 2
        return sum(self._lines[start:end]) + between + sum(start <= at < end for at in self.titles)

    def part(self, start: int, end: int) -> Shown:
        """Return some of the rows. The name of a group stands in its first row, and again where a part begins."""
        rows = [list(row) for row in self.rows[start:end]]
        if rows and not self.titles:
            rows[0][0] = next((row[0] for row in reversed(self.rows[: start + 1]) if row[0].text), rows[0][0])
        titles = {at - start: title for at, title in self.titles.items() if start <= at < end}
        if self.titles and 0 not in titles:
            titles[0] = self.titles[max(at for at in self.titles if at <= start)]
        groups = tuple(at - start for at in self.groups if start < at < end)
        return replace(self, rows=tuple(map(tuple, rows)), groups=groups, titles=titles)
