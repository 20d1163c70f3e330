"""Arranges a table so that it fits the column or the page of a paper.

There are `Room`s from a
column in the size of the article to a page in small letters, and in each of them intervals stand behind the numbers, in
smaller letters, or below them. In each of these, arrangements are tried: attacks beside each other, above each other,
or some beside each other in blocks; headers, then names in several lines; columns divided into blocks. The first that
is one float is taken. If none is, all are tried with the digits left out that are smaller than what the intervals leave
open, and of all the first is taken that needs the fewest floats.
"""

from __future__ import annotations

import itertools
import math
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rbench.tables.shapes import DIGITS, GAP, PLACES, Cell, Form, Grid, Head, Place, Shown, wide
from rbench.tables.table import Side

_ENOUGH = 0.01
"""Points by which sums may miss a room."""
_NARROW = 64.0, 44.0
"""Points of a column of words in several lines, at least; the second where the first does not do."""


@dataclass(frozen=True)
class Room:
    """A float that a table may have."""

    width: float
    """In points of letters of ten points."""
    lines: float
    """How many lines of the table it holds."""
    below: float = 0
    """How many lines of these the notes below the last float take."""
    size: int = 0
    """Which of the sizes its letters have."""
    page: bool = False
    """Whether it spans both columns of an article of two."""
    gap: float = GAP
    """Points between columns, in letters of ten points."""


@dataclass(frozen=True)
class Arranged:
    """A table that fits."""

    floats: tuple[tuple[Shown, ...], ...]
    """The blocks of each float."""
    room: Room
    place: Place = "behind"
    """Where intervals stand."""
    rounded: bool = False
    """Whether digits were left out."""
    said: tuple[str, ...] = ()
    """Sentences for the caption: what all rows share."""
    notes: tuple[str, ...] = ()
    """What the letters at names stand for."""
    transposed: bool = False
    """Whether its rows are the columns of the table."""

    @property
    def blocks(self) -> tuple[Shown, ...]:
        return tuple(block for one in self.floats for block in one)


def arranged(grid: Grid, rooms: Sequence[Room], place: Place = "behind") -> Arranged:
    """Arrange a table so that it fits.

    Args:
        grid: the table.
        rooms: the floats that it may have, the preferred first.
        place: where intervals stand at first.
    """
    grid, notes = _options_as_notes(grid)
    grid, said = _without_constants(grid)
    if "text" in grid.sides:
        return Arranged(((_plain(grid),),), rooms[0], place, said=said, notes=notes)
    best: Arranged | None = None
    for found in _arrangements(grid, rooms, place):
        if best is None or len(found.floats) < len(best.floats):
            best = found
        if len(best.floats) == 1:
            break
    if best is None:  # nothing fits, so the widest room has the narrowest arrangement
        blocks = _divided(grid, len(grid.header) - grid.names, rooms[-1].width)
        best = Arranged(floats(blocks, rooms[-1].lines, rooms[-1].below), rooms[-1], place)
    return replace(best, said=said, notes=notes)


def _arrangements(grid: Grid, rooms: Sequence[Room], place: Place) -> Iterator[Arranged]:
    """Yield the arrangements that are narrow enough, the preferred first."""
    wholes = [grid, *([_rounded(grid)] if any(cell.rounded for row in grid.rows for cell in row) else [])]
    more = any(cell.more for row in grid.rows for cell in row)
    places = PLACES[PLACES.index(place) :] if more else (place,)
    # A table is divided into blocks only where nothing else makes it a single float.
    for tiers, whole in itertools.product(((_as_they_are, _broken), (_side_by_side, _in_blocks)), wholes):
        by_place = {one: _placed(whole, one) for one in places}
        for page in dict.fromkeys(room.page for room in rooms):
            first, *smaller = [room for room in rooms if room.page == page]
            # Intervals give way before the letters of all.
            for room, where in [*((first, one) for one in places), *((room, places[-1]) for room in smaller)]:
                for tier in tiers:
                    for blocks, transposed in tier(replace(by_place[where], gap=room.gap), room.width):
                        if all(one.wide <= room.width + _ENOUGH for one in blocks):
                            parts = floats(blocks, room.lines, room.below)
                            yield Arranged(parts, room, where, whole is not grid, transposed=transposed)


def floats(blocks: Sequence[Shown], room: float, below: float) -> tuple[tuple[Shown, ...], ...]:
    """Divide a table into floats of at most `room` lines: between blocks, and else between groups where it can.

    Under the last one stand `below` lines.
    """
    pages: list[list[Shown]] = [[]]
    for one in blocks:
        parts = list(_parts(one, room))
        for part in parts:
            if pages[-1] and (len(parts) > 1 or sum(each.lines_in_all for each in (*pages[-1], part)) > room):
                pages.append([])
            pages[-1].append(part)
    *others, last = pages[-1]
    if below > 0 and sum(each.lines_in_all for each in pages[-1]) + below > room:
        least = max(room - below, room / 2)
        pages[-1:] = [*([others] if others else []), *([part] for part in _parts(last, least))]
    return tuple(map(tuple, pages))


def _parts(one: Shown, room: float) -> Iterator[Shown]:
    start, most = 0, room - one.head_lines + 1
    while one.height(start, len(one.rows)) > most:
        # More rows are never lower, so the first end that does not fit is the last one to be measured.
        ends = itertools.takewhile(lambda end: one.height(start, end) <= most, range(start + 1, len(one.rows)))  # noqa: B023
        fit = [*ends] or [start + 1]
        end = max([end for end in fit if end in one.groups] or fit)
        yield one.part(start, end)
        start = end
    yield one.part(start, len(one.rows))


Blocks = tuple[list[Shown], bool]
"""Blocks below each other, and whether rows and columns change places."""


def _as_they_are(grid: Grid, room: float) -> Iterator[Blocks]:
    """Yield arrangements with each name in one line. The best are first."""
    for whole in (_turned(grid), _plain(grid), _headed(grid)):
        if whole is not None:
            yield [whole], False
            yield [_stacked(whole)], False


def _broken(grid: Grid, room: float) -> Iterator[Blocks]:
    """Yield those with names in several lines, or with rows and columns exchanged."""
    turned, values = _turned(grid), len(grid.header) - grid.names
    if turned is not None:
        yield [_wrapped(_stacked(turned), room)], False
    for whole in (_headed(grid), _plain(grid)):
        yield [_wrapped(_stacked(whole), room)], False
    if grid.names == 1 and values > len(grid.rows) and not grid.above:
        yield [_wrapped(_stacked(_transposed(grid)), room)], True


def _side_by_side(grid: Grid, room: float) -> Iterator[Blocks]:
    """Yield those with some groups beside each other, and the others below them."""
    spans = _spans(grid)
    if _turned(grid) is None:
        return
    for count in range(len(spans) - 1, 1, -1):
        blocks = [_turned(_rows(grid, some[0], some[-1]), least=1) for some in _chunks(spans, count)]
        stacked = [_stacked(block) for block in blocks if block is not None]
        yield stacked, False
        yield [_wrapped(block, room) for block in stacked], False


def _in_blocks(grid: Grid, room: float) -> Iterator[Blocks]:
    """Yield those with columns divided into blocks below each other, the fewest first."""
    for count in range(2, len(grid.header) - grid.names + 1):
        yield _divided(grid, count, room), False


def _spans(grid: Grid) -> list[tuple[int, int]]:
    """Return the first row of each group, and the one behind its last."""
    starts = [0, *sorted(grid.groups)]
    return [*zip(starts, [*starts[1:], len(grid.rows)], strict=True)]


def _chunks(spans: list[tuple[int, int]], count: int) -> list[list[tuple[int, int]]]:
    """Divide groups into as few parts of at most `count` as can be, which are about as large."""
    parts = math.ceil(len(spans) / count)
    size = math.ceil(len(spans) / parts)
    return [spans[i : i + size] for i in range(0, len(spans), size)]


def _rows(grid: Grid, first: tuple[int, int], last: tuple[int, int]) -> Grid:
    start, end = first[0], last[1]
    groups = [at - start for at in grid.groups if start < at < end]
    return replace(grid, rows=grid.rows[start:end], groups=groups)


def _placed(grid: Grid, place: Place) -> Grid:
    rows = [[replace(cell, place=place) if cell.more else cell for cell in row] for row in grid.rows]
    return replace(grid, rows=rows)


def _rounded(grid: Grid) -> Grid:
    """Leave out a digit in the columns whose intervals are all wider than it."""
    columns = [[cell for cell in column if DIGITS.fullmatch(cell.text)] for column in zip(*grid.rows, strict=True)]
    fewer = [bool(column) and all(cell.rounded for cell in column) for column in columns]

    def shown(cell: Cell, round_it: bool) -> Cell:
        return replace(cell, text=cell.rounded[0], more=cell.rounded[1]) if round_it and cell.rounded else cell

    return replace(grid, rows=[[shown(cell, wish) for cell, wish in zip(row, fewer, strict=True)] for row in grid.rows])


def _plain(grid: Grid) -> Shown:
    rows = [list(row) for row in grid.rows]
    if grid.grouped:
        same = [i not in grid.groups and row[0] == rows[i - 1][0] for i, row in enumerate(rows) if i]
        rows[1:] = [
            [replace(row[0], text="", letter=""), *row[1:]] if blank else row
            for row, blank in zip(rows[1:], same, strict=True)
        ]
    groups = tuple(sorted(grid.groups)) if len(grid.groups) < len(grid.rows) - 1 else ()
    return Shown(_heads(grid), tuple(map(tuple, rows)), _forms(grid.rows, grid.sides), groups, gap=grid.gap)


def _heads(grid: Grid) -> tuple[tuple[Head, ...], ...]:
    names = tuple(Head((name,) if name else ()) for name in grid.header)
    if not any(grid.above):
        return (names,)
    return (_spanning([Cell(text) for text in grid.above]), names)


def _spanning(cells: Sequence[Cell]) -> tuple[Head, ...]:
    """Return the entries of a line of the header. Those that are equal and stand beside each other are one."""
    found = []
    for _, same in itertools.groupby(enumerate(cells), key=lambda of: (of[1].text, of[1].letter) if of[1].text else of):
        several = [cell for _, cell in same]
        text = several[0].text
        found.append(Head((text,) if text else (), len(several), several[0].letter))
    return tuple(found)


def _headed(grid: Grid) -> Shown:
    """Set the names of groups above their rows, in place of the first column."""
    titles = {at: grid.rows[at][0] for at in (0, *grid.groups) if at < len(grid.rows)}
    texts = {title.text for title in titles.values()}
    if not grid.grouped or grid.names < 2 or not 0 < len(titles) == len(texts):
        return _plain(grid)
    firsts = [{row[0].text for row in grid.rows[start:end]} for start, end in _spans(grid)]
    if any(len(names) > 1 for names in firsts):  # such as the encoders of a table of victims, which has no groups
        return _plain(grid)
    return replace(_plain(replace(grid.of_columns(range(1, len(grid.header))), grouped=False)), titles=titles)


def _turned(grid: Grid, least: int = 2) -> Shown | None:
    """Set groups beside each other, if all have the same rows: attacks in columns. None if they have not."""
    parts = [grid.rows[start:end] for start, end in _spans(grid)]
    if not grid.grouped or grid.names < 2 or len(parts) < least:
        return None
    names = [[row[1 : grid.names] for row in part] for part in parts]
    if len(parts[0]) < 2 or any(other != names[0] for other in names):
        return None
    rows = [[*name, *(cell for part in parts for cell in part[i][grid.names :])] for i, name in enumerate(names[0])]
    values = range(grid.names, len(grid.header))
    titles = [part[0][0] for part in parts]
    own, below = [Cell("")] * (grid.names - 1), [*range(1, grid.names), *[*values] * len(parts)]
    lines = [_spanning([*own, *(title for title in titles for _ in values)])]
    if len(values) == 1 and not any(grid.above):
        own_heads = (Head((grid.header[i],)) for i in range(1, grid.names))
        lines = [(*own_heads, *(Head((title.text,), letter=title.letter) for title in titles))]
    else:
        lines += _heads(grid.of_columns(below))
    sides = [grid.sides[i] for i in below]
    return Shown(tuple(lines), tuple(map(tuple, rows)), _forms(rows, sides), gap=grid.gap)


def _forms(rows: Sequence[Sequence[Cell]], sides: Sequence[Side]) -> tuple[Form, ...]:
    return tuple(_form([row[i] for row in rows], side) for i, side in enumerate(sides))


def _form(cells: Sequence[Cell], side: Side) -> Form:
    """Say how a column is set: numbers by their points, if nothing but single words stands among them."""
    numbers = [cell for cell in cells if DIGITS.fullmatch(cell.text)]
    others = [cell for cell in cells if cell.text and not DIGITS.fullmatch(cell.text)]
    if side != "right" or not numbers or any(cell.more for cell in others):
        return Form(side)
    digits = max(len(cell.text.partition(".")[2]) for cell in numbers)
    more = max(0 if cell.place == "below" else len(cell.more) for cell in cells)
    return Form(side, digits, more, max(len(cell.sign) for cell in numbers))


def _stacked(shown: Shown) -> Shown:
    """Break headers between words, in up to three lines, where they are wider than what they span."""
    widths = shown.widths

    def lower(heads: tuple[Head, ...]) -> tuple[Head, ...]:
        found, at = [], 0
        for head in heads:
            room = math.fsum(widths[at : at + head.span]) + shown.gap * (head.span - 1)
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
    return Shown((heads,), tuple(map(tuple, rows)), _forms(rows, sides), gap=grid.gap)


def _divided(grid: Grid, count: int, room: float) -> list[Shown]:
    """Divide the columns behind the names into blocks of about as many, each with the names."""
    size = math.ceil((len(grid.header) - grid.names) / max(count, 1)) or 1
    starts = range(grid.names, len(grid.header), size) or [grid.names]
    kept = [[*range(grid.names), *range(start, min(start + size, len(grid.header)))] for start in starts]
    return [_wrapped(_stacked(_headed(grid.of_columns(columns))), room) for columns in kept]


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
    return grid.of_columns(kept), tuple(said)


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
