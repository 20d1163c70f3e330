"""Writes a table as LaTeX that a paper takes as it is: booktabs, numbers aligned by their points, a label, a caption.

No table is scaled. `fitting` arranges one until it fits a column, then the page; what was done for that stands in a
note. A table that is higher than a page is set as several floats, one after the other, under one number, each with what
the signs in it mean. Texts are escaped to ASCII. It needs no packages but those of texlive-latex-recommended.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypedDict, get_args

from rbench.errors import StoreError
from rbench.schema import FontSize
from rbench.tables import fitting
from rbench.tables.fitting import ArrangedTable, FloatRoom, TextHeights
from rbench.tables.shapes import (
    DIGITS,
    GAP,
    LOW,
    ColumnForm,
    HeaderCell,
    IntervalPlace,
    PaperCell,
    PaperGrid,
    TableBlock,
    count_lines,
)

SIZES: dict[FontSize, float] = dict(zip(get_args(FontSize), (1.095, 1.0, 0.925, 0.85, 0.74), strict=True))
"""How wide letters are in an article of eleven points, as shares of letters of ten points. In an article of ten points
none are wider. Small letters are wider for their height."""
_LINES: dict[FontSize, float] = dict(zip(get_args(FontSize), (13.6, 12.0, 11.0, 9.5, 7.0), strict=True))
"""Points from one line to the next in an article of eleven points, whose page is the lowest: in one of ten it is
higher, and its lines are lower."""
_GAPS: dict[FontSize, float] = {"footnotesize": 6.0, "scriptsize": 5.0, "tiny": 5.0}
"""Points between columns in small letters, in letters of ten points."""
COLUMN, PAGE = 219.0, 455.0
"""Points of a column and of a page of the style of ACL, the narrowest of the usual ones in two columns."""
NARROW_PAGE = 345.0
"""Points of a page of an article of ten points in one column, the narrowest that there is."""
_PAGE_HEIGHT = 541.0
"""Points of a page of an article of eleven points on letter paper."""
_OF_TEXTS: tuple[FontSize, FontSize] = ("normalsize", "footnotesize")
"""Letters of captions and of notes."""
_CAPTION, _NOTES = 11.0, 5.0
"""Points that a caption takes, and notes take, besides their lines: the space above and below them."""
_TEXT = r"p{0.6\linewidth}"
_BREAK = "{}"
"""Placed between two characters that LaTeX would make one: hyphens a dash, commas or apostrophes a quotation mark."""
_QUOTE = r"\textquotesingle{}"
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",
    # The usual encoding of text has no straight quotation mark, but its typewriter face has.
    '"': r"{\ttfamily\char34}", "`": r"\textasciigrave{}",
    "†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$", "±": r"$\pm$", "–": "--", "—": "---",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "×": r"$\times$", "÷": r"$\div$", "≤": r"$\le$", "≥": r"$\ge$",
    "≠": r"$\ne$", "≈": r"$\approx$", "¬": r"$\neg$", "«": r"$\ll$", "»": r"$\gg$", "·": r"$\cdot$",
    "“": "``", "”": "''", "‘": "`", "’": "'", "„": ",{},", "…": r"\ldots{}", "\u2011": "-", "\u2010": "-",
    "½": r"\textonehalf{}", "¼": r"\textonequarter{}", "¾": r"\textthreequarters{}", "€": r"\texteuro{}",
    "£": r"\pounds{}", "¥": r"\textyen{}", "¢": r"\textcent{}", "№": r"\textnumero{}", "°": r"\textdegree{}",
    "µ": r"\textmu{}", "©": r"\copyright{}", "®": r"\textregistered{}", "™": r"\texttrademark{}", "•": r"\textbullet{}",
    "¹": "$^1$", "²": "$^2$", "³": "$^3$", "ª": r"\textordfeminine{}", "º": r"\textordmasculine{}",
    "¶": r"\P{}", "§": r"\S{}", "¿": "?`", "¡": "!`",
    "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}",
    "å": r"\aa{}", "Å": r"\AA{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", **{char: "\\" + char for char in "{}$&#_%"},
}  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip


def latex_escape(text: str) -> str:
    """Escape text as ASCII LaTeX that compiles with any engine. Unsupported characters become, e.g., `[U+4E2D]`."""
    text = re.sub(r"\s+", " ", unicodedata.normalize("NFC", text))
    characters = [_latex_character(char) for char in text]
    # An apostrophe in a word is set as one. Anywhere else the sign is a quotation mark.
    for sign in re.finditer(r"(?<!\w)'|'(?!\w)", text):
        characters[sign.start()] = _QUOTE
    for sign in re.finditer(r"-(?=-)|,(?=,)", text):
        characters[sign.start()] += _BREAK
    return "".join(characters)


def _latex_character(char: str) -> str:
    if char in _LATEX:
        return _LATEX[char]
    if " " <= char <= "~":
        return char
    decomposed = unicodedata.normalize("NFD", char)
    if len(decomposed) == 2 and decomposed[0].isascii() and decomposed[1] in _ACCENTS:
        return f"\\{_ACCENTS[decomposed[1]]}{{{decomposed[0]}}}"
    return f"{{[}}U+{ord(char):04X}{{]}}"


@dataclass(frozen=True)
class LatexStyle:
    """How a table is set."""

    wide: bool = False
    """Whether it spans both columns of an article that has two (`table*`). It may do so, too, where no `width` is set
    and it does not fit a column."""
    size: FontSize | None = None
    """Of the table's body; None: that of the article, or the largest in which it fits: down to `footnotesize` in a
    column, and to `scriptsize` in what is wider."""
    width: float | None = None
    """Points that it may be wide; None: a column of an article of two, or a page, of an article of one if it can be."""
    label: str = ""
    """What `\\ref` calls it, without `tab:`; empty: it has no label."""

    def __post_init__(self) -> None:
        if self.width is not None and not 50 <= self.width <= 2000:
            raise StoreError(f"a table cannot be {self.width:g} points wide; a line of an article has 219 to 470")

    def list_rooms(self) -> list[FloatRoom]:
        """Return the floats that a table may have, the preferred first."""
        sizes: list[FontSize] = ["normalsize", "small", "footnotesize"]
        smaller: list[FontSize] = [*sizes, "scriptsize"]
        if self.width is not None:
            offered = [(self.width, self.wide, smaller if self.width > 1.3 * COLUMN else sizes)]
        else:
            # Whoever has an article of one column can use whatever fits its page in letters that are well read.
            pages = [(NARROW_PAGE, True, sizes), (PAGE, True, smaller)]
            offered = pages if self.wide else [(COLUMN, False, sizes), *pages]
        rooms = []
        for points, page, its_sizes in offered:
            for size in [self.size] if self.size is not None else its_sizes:
                number = list(SIZES).index(size)
                width = points / SIZES[size]
                rooms.append(FloatRoom(width, _PAGE_HEIGHT, _LINES[size], number, page, _GAPS.get(size, GAP), points))
        return rooms


@dataclass(frozen=True)
class LatexBody:
    """A table as text, not escaped."""

    caption: Sequence[str]
    """Sentences."""
    grid: PaperGrid
    notes: Sequence[str]
    """Paragraphs below the table."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """What each sign in its entries means."""
    place: IntervalPlace = "behind"
    """Where intervals stand, if there is room."""


def write_environments(body: LatexBody, look: LatexStyle) -> str:
    """Write a table environment, or several if there are more rows than a page holds."""
    arranged = fitting.arrange(body.grid, look.list_rooms(), body.place, partial(_measure_texts, body, look))
    has_texts = "text" in body.grid.sides
    packages = ["booktabs", "array", *(["xcolor"] if has_texts else [])]
    lines = ["% Needs " + " ".join(rf"\usepackage{{{name}}}" for name in packages)]
    if look.width is None and (points := _points(arranged)) > NARROW_PAGE:
        lines.append(f"% About {points:.0f} points wide. For an article of one column: --width {NARROW_PAGE:.0f}")
    size = [*SIZES][arranged.room.size]
    for number, blocks in enumerate(arranged.floats):
        part_body = replace(body, **_texts(body, arranged, look, number, len(arranged.floats), blocks))
        stated_size = None if size == "normalsize" and look.size is None else size
        part_style = replace(look, size=stated_size, wide=arranged.room.page)
        lines += _environment(part_body, blocks, part_style, continued=number > 0)
    return "\n".join(lines)


def _points(arranged: ArrangedTable) -> float:
    """Return how wide a table is on the page, in an article of ten points."""
    return max(one.wide for one in arranged.blocks) * arranged.room.points / arranged.room.width / SIZES["normalsize"]


class _Texts(TypedDict):
    caption: list[str]
    notes: list[str]


def _texts(
    body: LatexBody, arranged: ArrangedTable, look: LatexStyle, number: int, parts: int, blocks: Sequence[TableBlock]
) -> _Texts:
    """Return the caption and the notes of a float, which is one of several parts."""
    said, notes = [*body.caption, *arranged.said], [*body.notes]
    if arranged.transposed:
        said, notes = [*map(_exchange_rows_and_columns, said)], [*map(_exchange_rows_and_columns, notes)]
    letters = {note.partition(":")[0]: note for note in arranged.notes}
    caption = said if number == 0 else [f"{said[0].rstrip('.')} (continued)."]
    done = _fitting_sentence(body, arranged, look, parts) if number == 0 else []
    last = notes if number == parts - 1 else []
    return {"caption": caption, "notes": [*_used_legend(blocks, letters, body.legend), *last, *done]}


def _measure_texts(body: LatexBody, look: LatexStyle, arranged: ArrangedTable) -> TextHeights:
    """Return how high caption and notes are. Those of each of several floats explain all signs of the table."""
    signs = [PaperCell(sign) for sign in body.legend] + [
        PaperCell("", letter=note.partition(":")[0]) for note in arranged.notes
    ]
    every_sign = TableBlock((), (tuple(signs),), ())

    def height(number: int, parts: int) -> float:
        texts = _texts(body, arranged, look, number, parts, [every_sign])
        own, small = (arranged.room.points / SIZES[size] for size in _OF_TEXTS)
        caption = count_lines(f"Table 10: {' '.join(texts['caption'])}", own) * _LINES["normalsize"]
        notes = sum(count_lines(note, small) for note in texts["notes"]) * _LINES["footnotesize"]
        return _CAPTION + caption + (_NOTES + notes if notes else 0)

    return TextHeights(height(0, 1), height(0, 2), height(1, 3), height(1, 2))


def _used_legend(blocks: Sequence[TableBlock], letters: Mapping[str, str], legend: Mapping[str, str]) -> list[str]:
    """Return what the letters and signs in some blocks mean."""
    cells = [cell for block in blocks for row in (*block.rows, [*block.titles.values()]) for cell in row]
    heads = [head for block in blocks for line in block.heads for head in line]
    used_letters = {cell.letter for cell in cells} | {head.letter for head in heads}
    texts = {cell.text for cell in cells} | {sign for cell in cells for sign in cell.sign}
    # A withheld entry begins with its sign and goes on with the names of flags.
    signs = {sign for sign in legend if any(text == sign or text.startswith(f"{sign} ") for text in texts)}
    meanings = [
        *(letters[block] for block in letters if block in used_letters),
        *(legend[sign] for sign in legend if sign in signs),
    ]
    return [" ".join(meanings)] if meanings else []


def _fitting_sentence(body: LatexBody, arranged: ArrangedTable, look: LatexStyle, parts: int) -> list[str]:
    """Say in a sentence what was done so that the table fits."""
    done = []
    if arranged.place != body.place:
        done.append(
            {"small": "intervals are in small letters", "below": "intervals stand below their numbers"}[arranged.place]
        )
    if look.size is None and arranged.room.size:
        done.append(f"letters are {[*SIZES][arranged.room.size]}")
    if arranged.room.page and not look.wide:
        done.append("the table spans the page")
    if arranged.rounded:
        done.append("digits are left out where intervals are wider than them")
    if parts > 1:
        done.append(f"the table has {parts} parts")
    return [f"To fit: {', '.join(done)}."] if done else []


def _exchange_rows_and_columns(text: str) -> str:
    """Exchange the words of rows and columns."""
    other = {"row": "column", "column": "row"}
    return re.sub(r"\b(row|column)(?=s?\b)", lambda word: other[word[0]], text)


def _environment(body: LatexBody, blocks: Sequence[TableBlock], look: LatexStyle, *, continued: bool) -> list[str]:
    environment = "table*" if look.wide else "table"
    caption = " ".join(body.caption)
    label = rf"\label{{tab:{re.sub('[^A-Za-z0-9:.-]+', '-', look.label)}}}"
    tabulars = [line for i, block in enumerate(blocks) for line in ([r"\par\smallskip"] if i else []) + _tabular(block)]
    return [
        rf"\begin{{{environment}}}[t]",
        # Later floats keep the number of the first, so their captions must not count.
        *([r"\addtocounter{table}{-1}"] if continued else []),
        # Words that cannot be broken may leave a line short, and never run over its end.
        r"\centering\sloppy",
        rf"\caption{{{_allow_breaks(latex_escape(caption))}}}",
        *([label] if look.label and not continued else []),
        r"\smallskip",
        *([rf"\{look.size}"] if look.size is not None else []),
        # In em, because widths are estimated in letters and must follow the size of the font.
        rf"\setlength{{\tabcolsep}}{{{blocks[0].gap / 20:g}em}}",
        *tabulars,
        *_notes_below(body.notes),
        rf"\end{{{environment}}}",
    ]


def _tabular(block: TableBlock) -> list[str]:
    lines = [_row(block, i) for i in range(len(block.rows))]
    # From the last row to the first, so that inserted lines do not move the places of those still to come.
    for start in sorted({0, *block.groups}, reverse=True):
        if (title := block.titles.get(start)) is not None and title.text:
            emphasised = rf"\emph{{{latex_escape(title.text)}}}{f'$^{{{title.letter}}}$' if title.letter else ''}"
            lines.insert(start, rf"\multicolumn{{{_count_columns(block.forms)}}}{{@{{}}l}}{{{emphasised}}} \\")
        if start:
            lines.insert(start, r"\midrule")
    has_lines_below = any(map(block.below, range(len(block.rows))))
    return [
        rf"\begin{{tabular}}{{@{{}}{''.join(_column_spec(form, has_lines_below) for form in block.forms)}@{{}}}}",
        r"\toprule",
        *_header(block),
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _row(block: TableBlock, index: int) -> str:
    row = block.rows[index]
    if not block.below(index):
        return " & ".join(_cells(row, block.forms)) + r" \\"
    # The second line of a name stands beside the intervals.
    lowered = [replace(cell, raised=True) if form.width else cell for cell, form in zip(row, block.forms, strict=True)]
    text = " & ".join(_cells(lowered, block.forms)) + r" \\"
    # A line of small letters needs less than a whole line.
    intervals = " & ".join(_small_interval(cell.more) if cell.place == "below" else "" for cell in row)
    more = block.name_lines(index) - (1 + LOW)
    higher = rf"[{more:.1f}\normalbaselineskip]" if more > 0 else ""
    return rf"{text}[-0.25em]" + f"\n{intervals} " + r"\\" + higher


def _count_columns(forms: Sequence[ColumnForm]) -> int:
    """Count the columns of a tabular. A number with an interval behind it has two."""
    return sum(1 + bool(form.more) for form in forms)


def _column_spec(form: ColumnForm, below: bool) -> str:
    if form.side == "text":
        return _TEXT
    if form.width is not None:
        return rf">{{\raggedright\hangindent=0.7em\arraybackslash}}p{{{form.width / 10:.1f}em}}"
    if form.side == "left":
        return "l"
    if form.more:
        return r"r@{\,}l"
    return "c" if below and form.digits is not None else "r"


def _header(block: TableBlock) -> Iterator[str]:
    for heads in block.heads:
        cells, rules, column = [], [], 0
        for head in heads:
            forms = block.forms[column : column + head.span]
            width, first = _count_columns(forms), _count_columns(block.forms[:column]) + 1
            cells.append(_header_cell(head, forms, width))
            if head.span > 1 and head.lines:
                rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
            column += head.span
        yield " & ".join(cells) + r" \\" + (" " + "".join(rules) if rules else "")


def _header_cell(head: HeaderCell, forms: Sequence[ColumnForm], columns: int) -> str:
    lines = [latex_escape(line) for line in head.lines]
    is_left = forms[0].side in ("left", "text")
    if is_left:
        side = "l"
    elif columns == 1:
        side = "r"
    else:
        side = "c"
    lines = [*lines[:-1], f"{lines[-1]}$^{{{head.letter}}}$"] if head.letter else lines
    joined = r"\\".join(lines)
    text = rf"\shortstack[{side}]{{{joined}}}" if len(lines) > 1 else joined
    return rf"\multicolumn{{{columns}}}{{c}}{{{text}}}" if columns > 1 else text


def _cells(row: Sequence[PaperCell], forms: Sequence[ColumnForm]) -> Iterator[str]:
    for cell, form in zip(row, forms, strict=True):
        text = _text_of(cell)
        if DIGITS.fullmatch(cell.text) and form.digits is not None:
            text += _alignment_space(cell, form)
        interval = _interval_of(cell, form.more) if cell.more and cell.place != "below" else ""
        if form.more:
            yield text
            yield interval
        else:
            yield f"{text} {interval}" if interval else text


def _alignment_space(cell: PaperCell, form: ColumnForm) -> str:
    """Return as much space as the longest numbers of a column have more behind their points: so all are aligned."""
    _, separator, digits = cell.text.partition(".")
    missing = "." * (not separator and bool(form.digits)) + "0" * ((form.digits or 0) - len(digits))
    signs = "†" * (form.sign - len(cell.sign))
    phantom = missing + "".join(map(latex_escape, signs))
    return rf"\phantom{{{phantom}}}" if phantom else ""


def _text_of(cell: PaperCell) -> str:
    if cell.pieces:
        return "".join(
            rf"\textcolor{{{cell.colour}}}{{\textbf{{{latex_escape(piece)}}}}}" if marked else latex_escape(piece)
            for piece, marked in cell.pieces
        )
    number = DIGITS.fullmatch(cell.text) is not None
    text = _allow_breaks(latex_escape(cell.text)) if cell.wraps else latex_escape(cell.text)
    # A minus in front of digits is set in math: a hyphen would be too short, and of another width.
    text = rf"$-${text[1:]}" if number and text.startswith("-") else text
    text = rf"\textbf{{{text}}}" if cell.bold else text
    text += "".join(map(latex_escape, cell.sign)) + (f"$^{{{cell.letter}}}$" if cell.letter else "")
    if cell.raised:
        return rf"\smash{{\parbox[t]{{\linewidth}}{{\raggedright\hangindent=0.7em {text}}}}}"
    return text


def _interval_of(cell: PaperCell, longest: int = 0) -> str:
    """Return what stands behind a number: its interval, or what follows a ±.

    Args:
        longest: the most characters of that in the column. Distances of fewer are moved to the right.
    """
    if cell.place == "small":
        return f"$_{{{_as_math(cell.more)}}}$"
    if "±" not in cell.more:
        return latex_escape(cell.more)
    sign, _, distance = cell.more.rpartition("±")
    padding = rf"\phantom{{{'0' * (longest - len(cell.more))}}}" if len(cell.more) < longest else ""
    return f"{latex_escape(sign)}$\\pm${padding}{latex_escape(distance)}"


def _small_interval(text: str) -> str:
    return rf"$\scriptstyle {_as_math(text)}$" if text else ""


def _as_math(text: str) -> str:
    return text.replace("±", r"\pm ").replace("–", r"\mbox{--}")


def _notes_below(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    paragraphs = [rf"{_allow_breaks(latex_escape(note))}\par" for note in notes]
    start = r"\begin{minipage}{\linewidth}\footnotesize\raggedright"
    return [r"\par\medskip", start, *paragraphs, r"\end{minipage}"]


def _allow_breaks(text: str) -> str:
    """Allow a break of the line inside names such as `simcse-mini[variant=released]/mr` after their signs."""
    return re.sub(r"(\\_|[/=,:]|\{\[\})(?=\S)", r"\1\\allowbreak{}", text)
