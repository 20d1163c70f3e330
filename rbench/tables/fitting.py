"""Arranges a table so that it fits the column or the page of a paper.

Three loops, the preferred choice first in each:

- the room: from a column in the size of the article to a page in small letters (`FloatRoom`);
- where intervals stand: behind the numbers, in smaller letters, or below them;
- the arrangement: attacks beside each other, above each other, or some beside each other in blocks; headers, then names
  in several lines; columns divided into blocks.

The first that is one float is taken. If none is, all are tried again without the digits that are smaller than what the
intervals leave open, and of all the one is taken that needs the fewest floats.
"""

from __future__ import annotations

import itertools
import math
import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rbench.tables.shapes import (
    DIGITS,
    GAP,
    INTERVAL_PLACES,
    ColumnForm,
    HeaderCell,
    IntervalPlace,
    PaperCell,
    PaperGrid,
    TableBlock,
    text_width,
)
from rbench.tables.table import ColumnSide

_TOLERANCE = 0.01
"""Points by which sums may miss a room."""
_BETWEEN = 4.0
"""Points between blocks below each other."""
_NARROW = 64.0, 44.0
"""Points of a column of words in several lines, at least; the second where the first does not do."""


@dataclass(frozen=True)
class FloatRoom:
    """A float that a table may have."""

    width: float
    """In points of letters of ten points."""
    height: float
    """Points that caption, table and notes may be high."""
    line: float = 13.6
    """Points from one line of the table to the next."""
    size: int = 0
    """Which of the sizes its letters have."""
    page: bool = False
    """Whether it spans both columns of an article of two."""
    gap: float = GAP
    """Points between columns, in letters of ten points."""
    points: float = 0
    """Its width in points of the page, which rooms of several sizes of letters share."""


@dataclass(frozen=True)
class TextHeights:
    """Points that caption and notes take in a float."""

    only: float = 0
    """In the only float of a table."""
    first: float = 0
    """In the first of several."""
    later: float = 0
    """In one behind it."""
    last: float = 0
    """In the last of several, which has the notes of all."""


@dataclass(frozen=True)
class ArrangedTable:
    """A table that fits."""

    floats: tuple[tuple[TableBlock, ...], ...]
    """The blocks of each float."""
    room: FloatRoom
    place: IntervalPlace = "behind"
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
    def blocks(self) -> tuple[TableBlock, ...]:
        return tuple(block for blocks_of_float in self.floats for block in blocks_of_float)


def _without_texts(_: ArrangedTable) -> TextHeights:
    return TextHeights()


def arrange(
    grid: PaperGrid,
    rooms: Sequence[FloatRoom],
    place: IntervalPlace = "behind",
    measure_texts: Callable[[ArrangedTable], TextHeights] = _without_texts,
) -> ArrangedTable:
    """Arrange a table so that it fits.

    Args:
        grid: the table.
        rooms: the floats that it may have, the preferred first.
        place: where intervals stand at first.
        measure_texts: returns how high caption and notes of an arrangement are. It has no floats yet.
    """
    grid, notes = _move_options_to_notes(grid)
    grid, sentences = _drop_constant_names(grid)
    if "text" in grid.sides:
        return ArrangedTable(((_plain_block(grid),),), rooms[0], place, said=sentences, notes=notes)
    best: ArrangedTable | None = None
    for arrangement in _arrangements(grid, rooms, place, sentences, notes, measure_texts):
        # Not `<=`: of arrangements with as many floats the first one is preferred.
        if best is None or len(arrangement.floats) < len(best.floats):
            best = arrangement
        if len(best.floats) == 1:
            break
    if best is None:  # nothing fits, so the widest room has the narrowest arrangement
        blocks = _divide_columns(grid, len(grid.header) - grid.names, rooms[-1].width)
        best = ArrangedTable((), rooms[-1], place, said=sentences, notes=notes)
        best = replace(best, floats=divide_into_floats(blocks, best.room, measure_texts(best)))
    return best


def _arrangements(
    grid: PaperGrid,
    rooms: Sequence[FloatRoom],
    place: IntervalPlace,
    said: tuple[str, ...],
    notes: tuple[str, ...],
    measure_texts: Callable[[ArrangedTable], TextHeights],
) -> Iterator[ArrangedTable]:
    """Yield the arrangements that are narrow enough, the preferred first."""
    all_cells = [cell for row in grid.rows for cell in row]
    grids = [grid, _round_columns(grid)] if any(cell.rounded for cell in all_cells) else [grid]
    has_intervals = any(cell.more for cell in all_cells)
    places = INTERVAL_PLACES[INTERVAL_PLACES.index(place) :] if has_intervals else (place,)
    rooms_and_places = _order_rooms(rooms, places)
    # A table is divided into blocks only where nothing else makes it a single float.
    for methods in ((_yield_plain, _yield_broken), (_yield_side_by_side, _yield_in_blocks)):
        for candidate in grids:
            by_place = {option: _place_intervals(candidate, option) for option in places}
            for (room, interval_place), method in itertools.product(rooms_and_places, methods):
                for blocks, transposed in method(replace(by_place[interval_place], gap=room.gap), room.width):
                    if any(block.wide > room.width + _TOLERANCE for block in blocks):
                        continue
                    found = ArrangedTable((), room, interval_place, candidate is not grid, said, notes, transposed)
                    yield replace(found, floats=divide_into_floats(blocks, room, measure_texts(found)))


def _order_rooms(rooms: Sequence[FloatRoom], places: Sequence[IntervalPlace]) -> list[tuple[FloatRoom, IntervalPlace]]:
    """Return what is tried in turn for a width: all places of intervals in its largest letters, then smaller letters.

    So intervals give way before the letters of the whole table.
    """
    ordered: list[tuple[FloatRoom, IntervalPlace]] = []
    for width in dict.fromkeys((room.page, room.points) for room in rooms):
        largest, *smaller = [room for room in rooms if (room.page, room.points) == width]
        ordered += [(largest, place) for place in places]
        ordered += [(room, places[-1]) for room in smaller]
    return ordered


def divide_into_floats(
    blocks: Sequence[TableBlock], room: FloatRoom, texts: TextHeights
) -> tuple[tuple[TableBlock, ...], ...]:
    """Divide a table into as few floats as a page holds: between blocks, and else between groups where it can."""
    if _height(blocks, room) + texts.only <= room.height:
        return (tuple(blocks),)
    pages: list[list[TableBlock]] = [[]]
    for block in blocks:
        if pages[-1] and _height([*pages[-1], block], room) > _space(room, texts, len(pages)):
            pages.append([])
        block_part, *before_last = _split_block(
            block, room.line, _space(room, texts, len(pages)), _space(room, texts, 2)
        )
        pages[-1].append(block_part)
        pages += [[other] for other in before_last]
    # Notes of the whole table stand below its last float.
    lines_left = room.height - texts.last
    if len(pages) == 1 or _height(pages[-1], room) > lines_left:
        *before_last, last = pages.pop()
        if before_last:
            pages.append(before_last)
        # Where notes leave no room at all, half a page is kept: no division would help.
        lines_left = max(lines_left, room.height / 2)
        if not pages:
            lines_left = min(lines_left, room.height - texts.first, last.height(room.line) - 1)
        pages += [[block_part] for block_part in _split_block(last, room.line, lines_left, lines_left)]
    return tuple(map(tuple, pages))


def _space(room: FloatRoom, texts: TextHeights, number: int) -> float:
    """Return the points that a float, the first is number 1, has for blocks."""
    return room.height - (texts.first if number == 1 else texts.later)


def _height(blocks: Sequence[TableBlock], room: FloatRoom) -> float:
    return sum(block.height(room.line) for block in blocks) + _BETWEEN * (len(blocks) - 1)


def _split_block(block: TableBlock, line: float, first: float, later: float) -> Iterator[TableBlock]:
    """Divide the rows of a block into a part that is at most `first` points high, and others of at most `later`."""
    start, lines_left = 0, first
    while block.height(line, start) > lines_left and start + 1 < len(block.rows):
        # More rows are never lower, so the first end that does not fit is the last one to be measured.
        fitting_ends = [start + 1]
        for end in range(start + 2, len(block.rows)):
            if block.height(line, start, end) > lines_left:
                break
            fitting_ends.append(end)
        end = max([end for end in fitting_ends if end in block.groups] or fitting_ends)
        yield block.part(start, end)
        start, lines_left = end, later
    yield block.part(start, len(block.rows))


BlocksAndTransposed = tuple[list[TableBlock], bool]
"""Blocks below each other, and whether rows and columns change places."""


def _yield_plain(grid: PaperGrid, room: float) -> Iterator[BlocksAndTransposed]:
    """Yield arrangements with each name in one line. The best are first."""
    for block in (_groups_side_by_side(grid), _plain_block(grid), _titled_block(grid)):
        if block is not None:
            yield [block], False
            yield [_stack_headers(block)], False


def _yield_broken(grid: PaperGrid, room: float) -> Iterator[BlocksAndTransposed]:
    """Yield those with names in several lines, or with rows and columns exchanged."""
    side_by_side, number_columns = _groups_side_by_side(grid), len(grid.header) - grid.names
    if side_by_side is not None:
        yield [_wrap_names(_stack_headers(side_by_side), room)], False
    for block in (_titled_block(grid), _plain_block(grid)):
        yield [_wrap_names(_stack_headers(block), room)], False
    if grid.names == 1 and number_columns > len(grid.rows) and not grid.above:
        yield [_wrap_names(_stack_headers(_transposed_block(grid)), room)], True


def _yield_side_by_side(grid: PaperGrid, room: float) -> Iterator[BlocksAndTransposed]:
    """Yield those with some groups beside each other, and the others below them."""
    spans = _group_spans(grid)
    if _groups_side_by_side(grid) is None:
        return
    for count in range(len(spans) - 1, 1, -1):
        blocks = [
            _groups_side_by_side(_rows_of_groups(grid, groups[0], groups[-1]), fewest_groups=1)
            for groups in _chunk_groups(spans, count)
        ]
        stacked = [_stack_headers(block) for block in blocks if block is not None]
        yield stacked, False
        yield [_wrap_names(block, room) for block in stacked], False


def _yield_in_blocks(grid: PaperGrid, room: float) -> Iterator[BlocksAndTransposed]:
    """Yield those with columns divided into blocks below each other, the fewest first."""
    for count in range(2, len(grid.header) - grid.names + 1):
        yield _divide_columns(grid, count, room), False


def _group_spans(grid: PaperGrid) -> list[tuple[int, int]]:
    """Return the first row of each group, and the one behind its last."""
    starts = [0, *sorted(grid.groups)]
    return [*zip(starts, [*starts[1:], len(grid.rows)], strict=True)]


def _chunk_groups(spans: list[tuple[int, int]], count: int) -> list[list[tuple[int, int]]]:
    """Divide groups into as few parts of at most `count` as can be, which are about as large."""
    chunk_count = math.ceil(len(spans) / count)
    chunk_size = math.ceil(len(spans) / chunk_count)
    return [spans[i : i + chunk_size] for i in range(0, len(spans), chunk_size)]


def _rows_of_groups(grid: PaperGrid, first: tuple[int, int], last: tuple[int, int]) -> PaperGrid:
    start, end = first[0], last[1]
    groups = [start_of_group - start for start_of_group in grid.groups if start < start_of_group < end]
    return replace(grid, rows=grid.rows[start:end], groups=groups)


def _place_intervals(grid: PaperGrid, place: IntervalPlace) -> PaperGrid:
    rows = [[replace(cell, place=place) if cell.more else cell for cell in row] for row in grid.rows]
    return replace(grid, rows=rows)


def _round_columns(grid: PaperGrid) -> PaperGrid:
    """Leave out a digit in the columns whose intervals are all wider than it."""
    columns = [[cell for cell in column if DIGITS.fullmatch(cell.text)] for column in zip(*grid.rows, strict=True)]
    may_round = [bool(column) and all(cell.rounded for cell in column) for column in columns]

    def rounded(cell: PaperCell) -> PaperCell:
        return replace(cell, text=cell.rounded[0], more=cell.rounded[1]) if cell.rounded else cell

    rows = []
    for row in grid.rows:
        with_choice = zip(row, may_round, strict=True)
        rows.append([rounded(cell) if round_it else cell for cell, round_it in with_choice])
    return replace(grid, rows=rows)


def _plain_block(grid: PaperGrid) -> TableBlock:
    rows = [list(row) for row in grid.rows]
    if grid.grouped:
        repeats = [i not in grid.groups and row[0] == rows[i - 1][0] for i, row in enumerate(rows) if i]
        rows[1:] = [
            [replace(row[0], text="", letter=""), *row[1:]] if blank else row
            for row, blank in zip(rows[1:], repeats, strict=True)
        ]
    groups = tuple(sorted(grid.groups)) if len(grid.groups) < len(grid.rows) - 1 else ()
    return TableBlock(
        _header_lines(grid), tuple(map(tuple, rows)), _column_forms(grid.rows, grid.sides), groups, gap=grid.gap
    )


def _header_lines(grid: PaperGrid) -> tuple[tuple[HeaderCell, ...], ...]:
    names = tuple(HeaderCell((name,) if name else ()) for name in grid.header)
    if not any(grid.above):
        return (names,)
    return (_merge_equal_heads([PaperCell(text) for text in grid.above]), names)


def _merge_equal_heads(cells: Sequence[PaperCell]) -> tuple[HeaderCell, ...]:
    """Return the entries of a line of the header. Those that are equal and stand beside each other are one."""
    heads = []
    for _, equal in itertools.groupby(
        enumerate(cells),
        key=lambda numbered_cell: (
            (numbered_cell[1].text, numbered_cell[1].letter) if numbered_cell[1].text else numbered_cell
        ),
    ):
        equal_cells = [cell for _, cell in equal]
        text = equal_cells[0].text
        heads.append(HeaderCell((text,) if text else (), len(equal_cells), equal_cells[0].letter))
    return tuple(heads)


def _titled_block(grid: PaperGrid) -> TableBlock:
    """Set the names of groups above their rows, in place of the first column."""
    titles = {row_index: grid.rows[row_index][0] for row_index in (0, *grid.groups) if row_index < len(grid.rows)}
    texts = {title.text for title in titles.values()}
    if not grid.grouped or grid.names < 2 or not 0 < len(titles) == len(texts):
        return _plain_block(grid)
    names_by_group = [{row[0].text for row in grid.rows[start:end]} for start, end in _group_spans(grid)]
    # Several names are such as the encoders of a table of victims, which has no groups.
    if any(len(names) > 1 for names in names_by_group):
        return _plain_block(grid)
    without_first = replace(grid.with_columns(range(1, len(grid.header))), grouped=False)
    return replace(_plain_block(without_first), titles=titles)


def _groups_side_by_side(grid: PaperGrid, fewest_groups: int = 2) -> TableBlock | None:
    """Set groups beside each other, if all have the same rows: attacks in columns. None if they have not."""
    groups = [grid.rows[start:end] for start, end in _group_spans(grid)]
    if not grid.grouped or grid.names < 2 or len(groups) < fewest_groups:
        return None
    names = [[row[1 : grid.names] for row in group] for group in groups]
    # Groups can stand beside each other only if their rows have the same names in the same order.
    if len(groups[0]) < 2 or any(other != names[0] for other in names):
        return None
    rows = []
    for i, row_names in enumerate(names[0]):
        numbers = [group[i][grid.names :] for group in groups]
        rows.append([*row_names, *itertools.chain.from_iterable(numbers)])
    titles = [group[0][0] for group in groups]
    name_columns, number_columns = range(1, grid.names), range(grid.names, len(grid.header))
    columns = [*name_columns, *list(number_columns) * len(groups)]
    if len(number_columns) == 1 and not any(grid.above):
        name_heads = [HeaderCell((grid.header[i],)) for i in name_columns]
        title_heads = [HeaderCell((title.text,), letter=title.letter) for title in titles]
        lines = [(*name_heads, *title_heads)]
    else:
        # Each title spans the columns of its group, below which the heads of the columns are repeated.
        spread_titles = [title for title in titles for _ in number_columns]
        title_line = _merge_equal_heads([*[PaperCell("")] * len(name_columns), *spread_titles])
        lines = [title_line, *_header_lines(grid.with_columns(columns))]
    sides = [grid.sides[i] for i in columns]
    return TableBlock(tuple(lines), tuple(map(tuple, rows)), _column_forms(rows, sides), gap=grid.gap)


def _column_forms(rows: Sequence[Sequence[PaperCell]], sides: Sequence[ColumnSide]) -> tuple[ColumnForm, ...]:
    return tuple(_column_form([row[i] for row in rows], side) for i, side in enumerate(sides))


def _column_form(cells: Sequence[PaperCell], side: ColumnSide) -> ColumnForm:
    """Say how a column is set: numbers by their points, if nothing but single words stands among them."""
    numbers = [cell for cell in cells if DIGITS.fullmatch(cell.text)]
    words = [cell for cell in cells if cell.text and not DIGITS.fullmatch(cell.text)]
    if side != "right" or not numbers or any(cell.more for cell in words):
        return ColumnForm(side)
    digits = max(len(cell.text.partition(".")[2]) for cell in numbers)
    longest_interval = max(0 if cell.place == "below" else len(cell.more) for cell in cells)
    return ColumnForm(side, digits, longest_interval, max(len(cell.sign) for cell in numbers))


def _stack_headers(shown: TableBlock) -> TableBlock:
    """Break headers between words, in up to three lines, where they are wider than what they span."""
    widths = shown.widths

    def lower(heads: tuple[HeaderCell, ...]) -> tuple[HeaderCell, ...]:
        lowered, column = [], 0
        for head in heads:
            room = math.fsum(widths[column : column + head.span]) + shown.gap * (head.span - 1)
            lowered.append(head if head.wide <= room else replace(head, lines=_break_lines(" ".join(head.lines), room)))
            column += head.span
        return tuple(lowered)

    return replace(shown, heads=tuple(map(lower, shown.heads)))


def _break_lines(text: str, room: float) -> tuple[str, ...]:
    """Break a text between words into as few lines as fit a room, three at most, that are as narrow as can be."""
    words = re.findall(r"\s*\S+?(?:-(?=\w{3})|,(?=\w))|\s*(?:\(≤ )?\S+(?: [†‡](?!\S))?", text)
    best: tuple[str, ...] = (text,)
    cuts = range(1, len(words))
    # Headers are short, so all cuts are tried. Three lines come last, and are used only if they are narrower.
    for cut in [(i,) for i in cuts] + [(i, j) for i in cuts for j in cuts if i < j]:
        parts = zip((0, *cut), (*cut, len(words)), strict=True)
        lines = tuple("".join(words[start:end]).strip() for start, end in parts)
        if max(map(text_width, best)) > room and max(map(text_width, lines)) < max(map(text_width, best)) - 1:
            best = lines
    return best


def _wrap_names(shown: TableBlock, room: float) -> TableBlock:
    """Give columns of words what others leave of the room, the widest first: their entries have several lines."""
    wrapped = shown
    for least_width in _NARROW:
        wrapped = shown
        for _ in wrapped.forms:
            excess, widths = wrapped.wide - room, wrapped.widths
            word_columns = [i for i, form in enumerate(wrapped.forms) if form.side == "left" and form.width is None]
            widest = max(word_columns, key=widths.__getitem__, default=0)
            width = max(least_width, _widest_unbreakable(wrapped.rows, widest), widths[widest] - excess)
            if excess <= _TOLERANCE or not word_columns or width >= widths[widest]:
                break
            rows = [list(row) for row in wrapped.rows]
            for row in rows:
                row[widest] = replace(row[widest], wraps=True)
            forms = list(wrapped.forms)
            forms[widest] = replace(forms[widest], width=width)
            wrapped = replace(wrapped, rows=tuple(map(tuple, rows)), forms=tuple(forms))
        if wrapped.wide <= room + _TOLERANCE:
            break  # the second, narrower limit is tried only where the first did not do
    return wrapped


def _widest_unbreakable(rows: Sequence[Sequence[PaperCell]], column: int) -> float:
    """Return the width of the longest part of a column that has no place for a break, and of what continued lines are
    indented by."""
    parts = (part for row in rows for part in re.split(r"(?<=[\s_/=,:\[-])", row[column].text))
    return max(map(text_width, parts), default=0) + 7


def _transposed_block(grid: PaperGrid) -> TableBlock:
    """Return the block in which rows are columns. Each of them is headed by its only name."""
    rows = []
    for column, name in enumerate(grid.header[grid.names :], start=grid.names):
        rows.append([PaperCell(name), *(row[column] for row in grid.rows)])
    heads = (HeaderCell((grid.header[0],)), *(HeaderCell((row[0].text,), letter=row[0].letter) for row in grid.rows))
    sides: list[ColumnSide] = ["left", *["right"] * len(grid.rows)]  # type: ignore[list-item]
    return TableBlock((heads,), tuple(map(tuple, rows)), _column_forms(rows, sides), gap=grid.gap)


def _divide_columns(grid: PaperGrid, count: int, room: float) -> list[TableBlock]:
    """Divide the columns behind the names into blocks of about as many, each with the names."""
    size = math.ceil((len(grid.header) - grid.names) / max(count, 1)) or 1
    starts = range(grid.names, len(grid.header), size) or [grid.names]
    columns_of_blocks = [[*range(grid.names), *range(start, min(start + size, len(grid.header)))] for start in starts]
    return [
        _wrap_names(_stack_headers(_titled_block(grid.with_columns(columns))), room) for columns in columns_of_blocks
    ]


def _drop_constant_names(grid: PaperGrid) -> tuple[PaperGrid, tuple[str, ...]]:
    """Leave out columns of names that have one name, and say it, as long as one column of names stays."""
    sentences: list[str] = []
    kept_columns = list(range(len(grid.header)))
    if len(grid.rows) < 2:
        return grid, ()
    # From the last to the first, so that of columns which could all go the first one stays.
    for i in range(grid.names - 1, -1, -1):
        column_names = {row[i].text for row in grid.rows}
        if (
            len(column_names) == 1
            and "" not in column_names
            and grid.header[i]
            and kept_columns[1:]
            and kept_columns[1] < grid.names
        ):
            kept_columns.remove(i)
            letter = grid.rows[0][i].letter
            sentences.insert(0, f"{grid.header[i]}: {column_names.pop()}{f' ({letter})' if letter else ''}.")
    return grid.with_columns(kept_columns), tuple(sentences)


def _move_options_to_notes(grid: PaperGrid) -> tuple[PaperGrid, tuple[str, ...]]:
    """Move options of long names, `SimCSE [steps=60,max_length=16]`, into notes, but those that tell names apart."""
    pairs = itertools.product(string.ascii_lowercase, repeat=2)
    letters = itertools.chain(string.ascii_lowercase, map("".join, pairs))  # a, b, ..., z, aa, ab, ...
    rows = [list(row) for row in grid.rows]
    letters_by_options: dict[str, str] = {}
    for i in range(grid.names):
        moved_by_name = _find_movable_options([row[i].text for row in rows])
        for text, (base, options, moved) in moved_by_name.items():
            options_text = ", ".join(option.replace("=", " = ") for option in moved)
            if options_text not in letters_by_options:
                letters_by_options[options_text] = next(letters)
            kept = [option for option in options if option not in moved]
            name, letter = ", ".join([base, *kept]), letters_by_options[options_text]
            for row in rows:
                if row[i].text == text:
                    row[i] = replace(row[i], text=name, letter=letter)
    notes = [f"{letter}: {options_text}." for options_text, letter in letters_by_options.items()]
    return replace(grid, rows=rows), tuple(notes)


def _find_movable_options(texts: Sequence[str]) -> dict[str, tuple[str, list[str], list[str]]]:
    """Return of each long name of a column whose options may move: the name without them, all, and those that may."""
    split_names: dict[str, tuple[str, list[str]]] = {}
    for text in texts:
        matched = re.fullmatch(r"(.+?) ?\[([^\[\]]+)\]", text)
        if matched is not None:
            split_names[text] = matched[1], matched[2].split(",")
    movable = {}
    for text, (base, options) in split_names.items():
        others = [other for name, (other_base, other) in split_names.items() if other_base == base and name != text]
        moved = options
        if others:
            # Names of one base are told apart by their options: only options that all of them have may move.
            moved = [option for option in options if all(option in other for other in others)]
        elif base in texts:
            # The base stands in the column by itself, so that this name must keep what it has beyond it.
            moved = []
        if moved and len(text) > _LONG_NAME:
            movable[text] = base, options, moved
    return movable


_LONG_NAME = 24
"""Characters of a name whose options stand beside it."""
