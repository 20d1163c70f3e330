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

from rbench.tables.table import ColumnSide

GAP = 8.0
"""Points between columns, in letters of ten points: twice `\\tabcolsep`. A room may have less."""
ABSENT = "–"
DIGITS = re.compile(r"[-+]?\d+(\.\d+)?")
_BOLD, _SMALL = 1.15, 0.82
"""Widths of bold letters and of the small letters of intervals, as shares of those of plain letters."""
LOW = 0.8
"""The height of a line of intervals, in lines of text."""
_FRAME, _RULE, _PARTIAL_RULE = 12.2, 5.5, 5.3
"""Points that the three rules of a table, one more between rows, and those in its header take. They are those of
booktabs in letters of eleven points, and the same in all smaller letters."""
_STACKED = 1.5
"""Points that a line after the first of an entry of the header needs besides a line of text."""
_SCRIPT = 0.4
"""Points that a row with signs or small letters beside its numbers is higher than others."""
_LINE, _HYPHEN = 100, 2500
"""Demerits of TeX for a line that ends between words, and for one that ends behind a hyphen besides."""
HANG = 7.0
"""Points by which lines after the first of an entry begin to the right, in letters of ten points."""
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
def text_width(text: str) -> float:
    """Return about how wide a text is, in points; rather too wide."""
    return math.fsum(_WIDTHS.get(char, 5.57 if char.islower() else 7.64) for char in text)


@cache
def count_lines(text: str, width: float, hang: float = 0) -> int:
    """Return how many lines a paragraph takes, broken as TeX breaks it: behind words and signs, rarely behind hyphens.

    Args:
        text: the paragraph, not escaped.
        width: the points of a line, in letters of ten points.
        hang: by how many points lines after the first are shorter.
    """
    parts = re.findall(r"\s*(?:[^\s_/=,:\[-]+[_/=,:\[-]*|[_/=,:\[-]+)", text)
    widths, starts = [*map(text_width, parts)], [text_width(part.lstrip()) for part in parts]
    # The demerits, and how many lines end there, of the best way to break before each part.
    best: list[tuple[float, int]] = [(0, 0)]
    for end in range(1, len(parts) + 1):
        hyphen = _HYPHEN if parts[end - 1].endswith("-") and end < len(parts) else 0
        ways, used = [], 0.0
        for start in range(end - 1, -1, -1):
            if start < end - 1 and used + starts[start] > width - (hang if start else 0):
                break
            ways.append((best[start][0] + _LINE + hyphen, best[start][1] + 1))
            used += widths[start]
        best.append(min(ways))
    return max(1, best[-1][1])


IntervalPlace = Literal["behind", "small", "below"]
"""Where what belongs to a number stands, such as its interval: behind it, behind it in small letters, or below it."""
INTERVAL_PLACES: tuple[IntervalPlace, ...] = get_args(IntervalPlace)


@dataclass(frozen=True)
class PaperCell:
    """An entry, not escaped."""

    text: str
    """A number as shown, or words."""
    more: str = ""
    """What stands behind a number: an interval, `[45.0, 57.3]`, or what follows a ±."""
    place: IntervalPlace = "behind"
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
        number_width = (text_width(self.text) + text_width(self.sign) * _SMALL) * (_BOLD if self.bold else 1) + (
            4 if self.letter else 0
        )
        return max(number_width, self.beside) if self.place == "below" else number_width + self.beside

    @property
    def beside(self) -> float:
        """How wide `more` is, with the space before it."""
        if not self.more:
            return 0
        return 2 + text_width(self.more) if self.place == "behind" else text_width(self.more) * _SMALL


@dataclass(frozen=True)
class PaperGrid:
    """A table before it is arranged."""

    header: Sequence[str]
    rows: Sequence[Sequence[PaperCell]]
    groups: Sequence[int]
    """The rows before which there is a line."""
    sides: Sequence[ColumnSide]
    """How each column is set."""
    names: int
    """How many of the first columns hold names."""
    grouped: bool = False
    """Whether the first column names groups of rows, such as attacks, and is empty where it repeats the row above."""
    above: Sequence[str] = ()
    """What stands above the entries of the header, such as the metric; equal neighbours are one."""
    gap: float = GAP
    """Points between columns."""

    def with_columns(self, kept: Sequence[int]) -> PaperGrid:
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
class HeaderCell:
    """An entry of the header."""

    lines: tuple[str, ...]
    span: int = 1
    letter: str = ""
    """That of a note below."""

    @cached_property
    def wide(self) -> float:
        return max(map(text_width, self.lines), default=0) + (4 if self.letter else 0)


@dataclass(frozen=True)
class ColumnForm:
    """How a column is set."""

    side: ColumnSide
    digits: int | None = None
    """Of numbers that are aligned by their points: how many stand behind it, at most."""
    more: int = 0
    """The most characters that stand behind a number; 0: none do."""
    sign: int = 0
    """The most signs that stand behind a number."""
    width: float | None = None
    """Points of a column whose entries may have several lines."""


@dataclass(frozen=True)
class TableBlock:
    """A block of the table as it is arranged."""

    heads: tuple[tuple[HeaderCell, ...], ...]
    rows: tuple[tuple[PaperCell, ...], ...]
    forms: tuple[ColumnForm, ...]
    groups: tuple[int, ...] = ()
    titles: Mapping[int, PaperCell] = field(default_factory=dict)
    """What stands above a row, by the row that follows."""
    gap: float = GAP
    """Points between columns."""

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
            column = 0
            for head in heads:
                spanned = math.fsum(widths[column : column + head.span]) + self.gap * (head.span - 1)
                # A head that is wider than what it spans widens the first of its columns.
                widths[column] += max(0, head.wide - spanned)
                column += head.span
        total = math.fsum(widths) + self.gap * (len(widths) - 1)
        return max(total, *(title.wide for title in self.titles.values()), 0)

    @cached_property
    def _lines(self) -> list[float]:
        return [self.lines(row) for row in range(len(self.rows))]

    @cached_property
    def _scripts(self) -> list[bool]:
        """Whether each row has signs, letters of notes, or intervals in small letters."""
        return [
            any(cell.sign or cell.letter or (cell.more and cell.place == "small") for cell in row) for row in self.rows
        ]

    def name_lines(self, row: int) -> int:
        """Return how many lines the highest entry of a row takes without intervals below it."""
        of = zip(self.rows[row], self.forms, strict=True)
        # Two points for letters and signs behind the text, and for words that TeX does not press together.
        return max([1, *(count_lines(cell.text, form.width - 2, HANG) for cell, form in of if form.width)])

    def lines(self, row: int) -> float:
        """Return how many lines a row takes."""
        height = self.name_lines(row)
        return max(height, 1 + LOW) if self.below(row) else height

    def height(self, line: float, start: int = 0, end: int | None = None) -> float:
        """Return the height of header, rules and some rows.

        Args:
            line: points from one line of text to the next.
            start: the first of the rows.
            end: the one behind the last; None: all rows.
        """
        end = len(self.rows) if end is None else end
        total = _FRAME
        for heads in self.heads:
            stacked = max((len(head.lines) for head in heads), default=1) - 1
            total += line + max(stacked, 0) * (line + _STACKED)
            total += _PARTIAL_RULE if any(head.span > 1 and head.lines for head in heads) else 0
        total += line * (sum(self._lines[start:end]) + sum(start <= row < end for row in self.titles))
        if self.titles and start not in self.titles and start < end:  # a part begins with the title of its group
            total += line
        total += _RULE * sum(start < group < end for group in self.groups)
        return total + _SCRIPT * sum(self._scripts[start:end])

    def part(self, start: int, end: int) -> TableBlock:
        """Return some of the rows. The name of a group stands in its first row, and again where a part begins."""
        rows = [list(row) for row in self.rows[start:end]]
        if rows and not self.titles:
            rows[0][0] = next((row[0] for row in reversed(self.rows[: start + 1]) if row[0].text), rows[0][0])
        titles = {row_index - start: title for row_index, title in self.titles.items() if start <= row_index < end}
        if self.titles and 0 not in titles:
            titles[0] = self.titles[max(row_index for row_index in self.titles if row_index <= start)]
        groups = tuple(row_index - start for row_index in self.groups if start < row_index < end)
        return replace(self, rows=tuple(map(tuple, rows)), groups=groups, titles=titles)
