"""Arranges a table so that it fits the column of a paper, at the size of its letters.

Widths are those of Computer Modern at ten points, which most fonts of papers do not exceed. Of all arrangements the
first that fits is taken: attacks beside each other, or above each other; headers, then names in several lines. The last
ones divide the columns into blocks that stand below each other, each with the names of the rows, and fit nearly any
table.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rbench.tables.table import Side

GAP = 8.0
"""Points between columns, in letters of ten points: twice `\\tabcolsep`."""
ABSENT = "–"
DIGITS = re.compile(r"[-+]?\d+(\.\d+)?")
_BOLD, _SMALL = 1.15, 0.88
"""Widths of bold letters and of subscripts, as shares of those of plain letters."""
_ENOUGH = 0.01
"""Points by which sums may miss a room."""
_NARROW = 64.0, 44.0
"""Points of a column of words in several lines, at least; the second where the first does not do."""
_WIDTHS: Mapping[str, float] = {
    **dict.fromkeys("ijl.,:;'!|()[]", 2.78), **dict.fromkeys("frstI-", 3.93), **dict.fromkeys("cez ", 4.45),
    **dict.fromkeys("mwMW@%", 8.9), "W": 10.3, **dict.fromkeys("ABCDEFGHKLNOPQRTUVXYZ=+<>&~", 7.6),
    **dict.fromkeys("JS", 5.6), **dict.fromkeys("↑↓±×≤≥", 7.8),
}  # fmt: skip


def wide(text: str) -> float:
    """Return about how wide a text is, in points; rather too wide."""
    return math.fsum(_WIDTHS.get(char, 5.56 if char.islower() else 5.0) for char in text)


@dataclass(frozen=True)
class Cell:
    """An entry, not escaped."""

    text: str
    """A number as shown, or words."""
    more: str = ""
    """What stands behind a number: an interval, `[45.0, 57.3]`, or what follows a ±."""
    small: bool = False
    """Whether `more` is a subscript."""
    sign: str = ""
    bold: bool = False
    letter: str = ""
    """That of a note below."""
    pieces: tuple[tuple[str, bool], ...] = ()
    """Those of a marked text, in place of `text`."""
    colour: str = ""
    wraps: bool = False
    """Whether its line may be broken."""

    @property
    def wide(self) -> float:
        own = (wide(self.text) + wide(self.sign) * _SMALL) * (_BOLD if self.bold else 1)
        return own + self.beside + (4 if self.letter else 0)

    @property
    def beside(self) -> float:
        return 2 + wide(self.more) * (_SMALL if self.small else 1) if self.more else 0


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

    def __post_init__(self) -> None:
        columns = {len(self.header), len(self.sides), *map(len, self.rows)}
        if len(columns) > 1:  # LaTeX would say `Extra alignment tab`, or nothing, and only to who compiles the table
            raise ValueError(f"header, rows and alignment have {sorted(columns)} columns; they must have the same")


@dataclass(frozen=True)
class Head:
    """An entry of the header."""

    lines: tuple[str, ...]
    span: int = 1
    letter: str = ""
    """That of a note below."""

    @property
    def wide(self) -> float:
        return max(map(wide, self.lines), default=0) + (4 if self.letter else 0)


@dataclass(frozen=True)
class Form:
    """How a column is set."""

    side: Side
    digits: str | None = None
    """Of numbers that are aligned by their points: how many stand before and behind it, `2.1`."""
    more: int = 0
    """The most characters that stand behind a number; 0: none do."""
    sign: bool = False
    """Whether a number has a sign behind it."""
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

    @property
    def head_lines(self) -> int:
        return sum(max((len(head.lines) for head in heads), default=1) for heads in self.heads)

    @property
    def widths(self) -> list[float]:
        """How wide each column is."""
        return [
            form.width if form.width is not None else max([row[i].wide for row in self.rows] or [0])
            for i, form in enumerate(self.forms)
        ]

    @property
    def wide(self) -> float:
        widths, total = self.widths, 0.0
        for heads in reversed(self.heads):  # the last line of the header first: those above span its columns
            at = 0
            for head in heads:
                own = math.fsum(widths[at : at + head.span]) + GAP * (head.span - 1)
                widths[at] += max(0, head.wide - own)
                at += head.span
        total = math.fsum(widths) + GAP * (len(widths) - 1)
        return max(total, *(title.wide for title in self.titles.values()), 0)

    @property
    def lines_in_all(self) -> float:
        """Return the height of header, rows and rules in lines of text."""
        return self.head_lines + 1.5 + self.height(0, len(self.rows))

    def lines(self, row: int) -> int:
        """How many lines a row takes."""
        of = zip(self.rows[row], self.forms, strict=True)
        return max([1, *(math.ceil(1.3 * cell.wide / form.width) for cell, form in of if form.width)])

    def height(self, start: int, end: int) -> float:
        """Return the height of some rows in lines of text. A rule takes half a line."""
        between = sum(start < group < end for group in self.groups) / 2
        return sum(map(self.lines, range(start, end))) + between + sum(start <= at < end for at in self.titles)

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


@dataclass(frozen=True)
class Arranged:
    """A table that fits."""

    blocks: tuple[Shown, ...]
    """All have the same rows."""
    size: int = 0
    """Which of the sizes its letters have."""
    said: tuple[str, ...] = ()
    """Sentences for the caption: what all rows share."""
    notes: tuple[str, ...] = ()
    """What the letters at names stand for."""
    transposed: bool = False
    """Whether its rows are the columns of the table."""


def arranged(grid: Grid, rooms: Sequence[float]) -> Arranged:
    """Arrange a table so that it fits.

    Args:
        grid: the table.
        rooms: how wide it may be in each of the sizes of letters that it may have, in points of letters of ten points.
            The first are preferred, but for smaller letters the table is not divided.
    """
    grid, notes = _options_as_notes(grid)
    grid, said = _without_constants(grid)
    found = Arranged((_plain(grid),), 0, said, notes)
    if "text" in grid.sides:
        return found
    for tier in (_as_they_are, _broken):
        for size, room in enumerate(rooms):
            for shown, transposed in tier(grid, room):
                if shown.wide <= room + _ENOUGH:
                    return replace(found, blocks=(shown,), size=size, transposed=transposed)
    size, room = len(rooms) - 1, rooms[-1]
    whole = _stacked(_headed(grid))
    names = len(whole.forms) - (len(grid.header) - grid.names)
    blocks = [whole]
    for count in range(2, len(whole.forms) - names + 1):
        blocks = [_wrapped(one, room) for one in _divided(whole, names, count)]
        if all(one.wide <= room + _ENOUGH for one in blocks):
            break
    return replace(found, blocks=tuple(blocks), size=size)


def _as_they_are(grid: Grid, room: float) -> Iterator[tuple[Shown, bool]]:
    """Yield arrangements with each name in one line, and whether rows and columns change places. The best are first."""
    for whole in (_turned(grid), _plain(grid), _headed(grid)):
        if whole is not None:
            yield whole, False
            yield _stacked(whole), False


def _broken(grid: Grid, room: float) -> Iterator[tuple[Shown, bool]]:
    """Yield those with names in several lines, or with rows and columns exchanged."""
    turned, values = _turned(grid), len(grid.header) - grid.names
    if turned is not None:
        yield _wrapped(_stacked(turned), room), False
    for whole in (_headed(grid), _plain(grid)):
        yield _wrapped(_stacked(whole), room), False
    if grid.names == 1 and values > len(grid.rows):
        yield _wrapped(_stacked(_transposed(grid)), room), True


def _plain(grid: Grid) -> Shown:
    rows = [list(row) for row in grid.rows]
    if grid.grouped:
        same = [i not in grid.groups and row[0] == rows[i - 1][0] for i, row in enumerate(rows) if i]
        rows[1:] = [
            [replace(row[0], text="", letter=""), *row[1:]] if blank else row
            for row, blank in zip(rows[1:], same, strict=True)
        ]
    heads = tuple(Head((name,) if name else ()) for name in grid.header)
    groups = tuple(sorted(grid.groups)) if len(grid.groups) < len(grid.rows) - 1 else ()
    return Shown((heads,), tuple(map(tuple, rows)), _forms(grid.rows, grid.sides), groups)


def _headed(grid: Grid) -> Shown:
    """Set the names of groups above their rows, in place of the first column."""
    titles = {at: grid.rows[at][0] for at in (0, *grid.groups) if at < len(grid.rows)}
    texts = {title.text for title in titles.values()}
    if not grid.grouped or grid.names < 2 or not 0 < len(titles) == len(texts):
        return _plain(grid)
    rows = [row[1:] for row in grid.rows]
    less = replace(grid, header=grid.header[1:], rows=rows, sides=grid.sides[1:], names=grid.names - 1, grouped=False)
    return replace(_plain(less), titles=titles)


def _turned(grid: Grid) -> Shown | None:
    """Set groups beside each other, if all have the same rows: attacks in columns. None if they have not."""
    starts = [0, *sorted(grid.groups)]
    if not grid.grouped or grid.names < 2 or len(starts) < 2:
        return None
    parts = [grid.rows[start:end] for start, end in zip(starts, [*starts[1:], len(grid.rows)], strict=True)]
    names = [[row[1 : grid.names] for row in part] for part in parts]
    if len(parts[0]) < 2 or any(other != names[0] for other in names):
        return None
    values = grid.header[grid.names :]
    rows = [[*name, *(cell for part in parts for cell in part[i][grid.names :])] for i, name in enumerate(names[0])]
    titles = [part[0][0] for part in parts]
    own = tuple(Head((name,)) for name in grid.header[1 : grid.names])
    if len(values) == 1:
        heads: tuple[tuple[Head, ...], ...] = ((*own, *(Head((title.text,), letter=title.letter) for title in titles)),)
    else:
        above = (*(Head(()) for _ in own), *(Head((title.text,), len(values), title.letter) for title in titles))
        heads = (above, (*own, *(Head((name,)) for _ in titles for name in values)))
    sides = [*grid.sides[1 : grid.names], *[*grid.sides[grid.names :]] * len(parts)]
    return Shown(heads, tuple(map(tuple, rows)), _forms(rows, sides))


def _forms(rows: Sequence[Sequence[Cell]], sides: Sequence[Side]) -> tuple[Form, ...]:
    return tuple(_form([row[i] for row in rows], side) for i, side in enumerate(sides))


def _form(cells: Sequence[Cell], side: Side) -> Form:
    """Say how a column is set: numbers by their points, if nothing but single words stands among them."""
    numbers = [cell for cell in cells if DIGITS.fullmatch(cell.text)]
    others = [cell for cell in cells if cell.text and not DIGITS.fullmatch(cell.text)]
    if side != "right" or not numbers or any(cell.more for cell in others):
        return Form(side)
    before, behind = zip(*((cell.text.lstrip("+").partition(".")[::2]) for cell in numbers), strict=True)
    signed = "-" if any(text[0] in "+-" for text in before) else ""
    whole = max(len(text.lstrip("+-")) for text in before)
    digits = f"{signed}{whole}.{max(map(len, behind))}"
    return Form(side, digits, max(len(cell.more) for cell in cells), any(cell.sign for cell in numbers))


def _stacked(shown: Shown) -> Shown:
    """Break headers between words, in up to three lines, where they are wider than what they span."""
    widths = shown.widths

    def lower(heads: tuple[Head, ...]) -> tuple[Head, ...]:
        found, at = [], 0
        for head in heads:
            room = math.fsum(widths[at : at + head.span]) + GAP * (head.span - 1)
            found.append(head if head.wide <= room else replace(head, lines=_lines(" ".join(head.lines), room)))
            at += head.span
        return tuple(found)

    return replace(shown, heads=tuple(map(lower, shown.heads)))


def _lines(text: str, room: float) -> tuple[str, ...]:
    """Break a text between words into as few lines as fit a room, three at most, that are as narrow as can be."""
    words = re.findall(r"\s*\S+?(?:-(?=\w{3})|,(?=\w))|\s*(?:\(≤ )?\S+(?: [†‡](?!\S))?", text)
    best: tuple[str, ...] = (text,)
    cuts = range(1, len(words))
    # Headers are short, so all cuts are tried. Three lines come last, and are used only if they are narrower.
    for cut in [(i,) for i in cuts] + [(i, j) for i in cuts for j in cuts if i < j]:
        parts = zip((0, *cut), (*cut, len(words)), strict=True)
        lines = tuple("".join(words[start:end]).strip() for start, end in parts)
        if max(map(wide, best)) > room and max(map(wide, lines)) < max(map(wide, best)) - 1:
            best = lines
    return best


def _wrapped(shown: Shown, room: float) -> Shown:
    """Give columns of words what others leave of the room, the widest first: their entries have several lines."""
    found = shown
    for narrow in _NARROW:
        found = shown
        for _ in found.forms:
            over, widths = found.wide - room, found.widths
            words = [i for i, form in enumerate(found.forms) if form.side == "left" and form.width is None]
            at = max(words, key=widths.__getitem__, default=0)
            width = max(narrow, _longest(found.rows, at), widths[at] - over)
            if over <= _ENOUGH or not words or width >= widths[at]:
                break
            rows = [[replace(one, wraps=True) if i == at else one for i, one in enumerate(row)] for row in found.rows]
            forms = [replace(one, width=width) if i == at else one for i, one in enumerate(found.forms)]
            found = replace(found, rows=tuple(map(tuple, rows)), forms=tuple(forms))
        if found.wide <= room + _ENOUGH:
            break
    return found


def _longest(rows: Sequence[Sequence[Cell]], at: int) -> float:
    """How wide the longest part of a column is at which no line can be broken, and what lines after the first lack."""
    parts = (part for row in rows for part in re.split(r"(?<=[\s_/=,:\[-])", row[at].text))
    return max(map(wide, parts), default=0) + 7


def _transposed(grid: Grid) -> Shown:
    rows = [
        [Cell(name), *(row[grid.names + i] for row in grid.rows)] for i, name in enumerate(grid.header[grid.names :])
    ]
    heads = (Head((grid.header[0],)), *(Head((row[0].text,), letter=row[0].letter) for row in grid.rows))
    sides: list[Side] = ["left", *["right"] * len(grid.rows)]  # type: ignore[list-item]
    return Shown((heads,), tuple(map(tuple, rows)), _forms(rows, sides))


def _divided(shown: Shown, names: int, count: int) -> list[Shown]:
    """Divide the columns behind the names into blocks of about as many, each with the names."""
    columns = range(names, len(shown.forms))
    size = math.ceil(len(columns) / count)
    found = []
    for start in range(names, len(shown.forms), size):
        kept = [*range(names), *range(start, min(start + size, len(shown.forms)))]
        rows = tuple(tuple(row[i] for i in kept) for row in shown.rows)
        heads = (tuple(shown.heads[-1][i] for i in kept),)
        found.append(replace(shown, heads=heads, rows=rows, forms=tuple(shown.forms[i] for i in kept)))
    return found


def _without_constants(grid: Grid) -> tuple[Grid, tuple[str, ...]]:
    """Leave out columns of names that have one name, and say it, as long as one column of names stays."""
    said: list[str] = []
    kept = list(range(len(grid.header)))
    if len(grid.rows) < 2:
        return grid, ()
    for i in range(grid.names - 1, -1, -1):
        of = {row[i].text for row in grid.rows}
        if len(of) == 1 and "" not in of and grid.header[i] and kept[1:] and kept[1] < grid.names:
            kept.remove(i)
            letter = grid.rows[0][i].letter
            said.insert(0, f"{grid.header[i]}: {of.pop()}{f' ({letter})' if letter else ''}.")
    names = sum(i < grid.names for i in kept)
    less = replace(
        grid,
        header=[grid.header[i] for i in kept],
        rows=[[row[i] for i in kept] for row in grid.rows],
        sides=[grid.sides[i] for i in kept],
        names=names,
    )
    return less, tuple(said)


def _options_as_notes(grid: Grid) -> tuple[Grid, tuple[str, ...]]:
    """Move options of long names, `SimCSE [steps=60,max_length=16]`, into notes, but those that tell names apart."""
    letters = iter([*string.ascii_lowercase, *(a + b for a in string.ascii_lowercase for b in string.ascii_lowercase)])
    rows, notes = [list(row) for row in grid.rows], []
    known: dict[str, str] = {}
    for i in range(grid.names):
        texts = dict.fromkeys(row[i].text for row in rows)
        parts = {text: found for text in texts if (found := re.fullmatch(r"(.+?) ?\[([^\[\]]+)\]", text))}
        apart = {text: (found[1], found[2].split(",")) for text, found in parts.items()}
        for text, (base, options) in apart.items():
            if len(text) <= _LONG:
                continue
            same = [other for name, (of, other) in apart.items() if of == base and name != text]
            plain = base in texts
            shared = [one for one in options if all(one in other for other in same)]
            moved = shared if same else [] if plain else options
            if not moved:
                continue
            kept = [one for one in options if one not in moved]
            said = ", ".join(one.replace("=", " = ") for one in moved)
            letter = known.setdefault(said, "") or next(letters)
            known[said] = letter
            name = f"{base}{', ' if kept else ''}{', '.join(kept)}"
            for row in rows:
                if row[i].text == text:
                    row[i] = replace(row[i], text=name, letter=letter)
    notes = [f"{letter}: {said}." for said, letter in known.items()]
    return replace(grid, rows=rows), tuple(notes)


_LONG = 24
"""Characters of a name whose options stand beside it."""
