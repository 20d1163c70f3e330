"""Writes a table as LaTeX that a paper takes as it is: booktabs, numbers aligned by siunitx, a label, a caption.

No table is scaled. `fitting` arranges one until it fits its column: attacks beside each other or above each other,
headers and names in several lines, and at last the columns in several blocks. A table that is higher than a page is set
as several, one after the other, under one number. Texts are escaped to ASCII.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from rbench.errors import StoreError
from rbench.schema import FontSize
from rbench.tables import fitting
from rbench.tables.fitting import DIGITS, GAP, Cell, Form, Grid, Head, Shown

SIZES: dict[FontSize, float] = dict(zip(get_args(FontSize), (1.0, 0.93, 0.86, 0.81, 0.69), strict=True))
"""The widths of letters, as shares of those of the article. Small letters are wider for their height."""
COLUMN, PAGE = 219.0, 455.0
"""Points of a column and of a page of the style of ACL, the narrowest of the usual ones in two columns."""
_PAGE = 35.5
"""Lines of a table that a page holds besides its caption and notes: an article of 10 or 11 points has 43 or 38."""
_NOTES, _CAPTION = 1, 1
"""Lines of notes, and of the caption, for which a page has room besides them."""
_SMALL = 0.81
"""The height of a line of notes, as a share of one of the table."""
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
    "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "å": r"\aa{}",
    "Å": r"\AA{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", **{char: "\\" + char for char in "{}$&#_%"},
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
    for found in re.finditer(r"(?<!\w)'|'(?!\w)", text):
        characters[found.start()] = _QUOTE
    for found in re.finditer(r"-(?=-)|,(?=,)", text):
        characters[found.start()] += _BREAK
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
class Look:
    """How a table is set."""

    wide: bool = False
    """Whether it spans both columns of an article that has two (`table*`)."""
    size: FontSize | None = None
    """Of the table's body; None: that of the article, or the largest down to `footnotesize` in which it fits."""
    width: float | None = None
    """Points that it may be wide; None: a column of an article of two, or with `wide` its page."""
    label: str = ""
    """What `\\ref` calls it, without `tab:`; empty: it has no label."""

    def __post_init__(self) -> None:
        if self.size is not None and self.size not in SIZES:
            raise StoreError(f"unknown size {self.size!r}; LaTeX has {', '.join(SIZES)}")
        if self.width is not None and not 50 <= self.width <= 2000:
            raise StoreError(f"a table cannot be {self.width:g} points wide; a line of an article has 219 to 470")

    @property
    def sizes(self) -> tuple[FontSize, ...]:
        return (self.size,) if self.size is not None else ("normalsize", "small", "footnotesize")

    def room(self, size: FontSize) -> float:
        """How wide the table may be, in points of letters of ten points."""
        width = self.width if self.width is not None else PAGE if self.wide else COLUMN
        # Letters of eleven points, so that the table fits articles of ten and of eleven.
        return width / (1.095 * SIZES[size])


@dataclass(frozen=True)
class Body:
    """A table as text, not escaped."""

    caption: Sequence[str]
    """Sentences."""
    grid: Grid
    notes: Sequence[str]
    """Paragraphs below the table."""


def layout(body: Body, look: Look) -> str:
    """Write a table environment, or several if there are more rows than a page holds."""
    arranged = fitting.arranged(body.grid, [look.room(size) for size in look.sizes])
    texts = "text" in body.grid.sides
    packages = ["booktabs", "siunitx", *(["xcolor"] if texts else [])]
    lines = ["% Needs " + " ".join(rf"\usepackage{{{name}}}" for name in packages)]
    said, notes = [*body.caption, *arranged.said], [*arranged.notes, *body.notes]
    if arranged.transposed:
        said, notes = [*map(_exchanged, said)], [*map(_exchanged, notes)]
    size = look.sizes[arranged.size]
    look = replace(look, size=None if size == "normalsize" and look.size is None else size)
    width = look.room("footnotesize")
    below = _SMALL * (sum(math.ceil(fitting.wide(note) / width) for note in notes) - _NOTES)
    above = max(0, math.ceil(fitting.wide(" ".join(said)) / look.room("normalsize")) - _CAPTION)
    for number, (blocks, last) in enumerate(_pages(arranged.blocks, (_PAGE - above) / SIZES[size], below, texts)):
        part = replace(body, caption=[*said], notes=[*notes] if last else ())
        notes = [] if last else notes
        lines += _environment(part, blocks, look, continued=number > 0)
    return "\n".join(lines)


def _exchanged(text: str) -> str:
    """Exchange the words of rows and columns."""
    other = {"row": "column", "column": "row"}
    return re.sub(r"\b(row|column)(?=s?\b)", lambda found: other[found[0]], text)


def _pages(blocks: Sequence[Shown], room: float, below: float, texts: bool) -> Iterator[tuple[list[Shown], bool]]:
    """Divide a table into parts of at most `room` lines: between blocks, and else between groups where it can.

    With each part stands whether it is the last. Under the last one stand `below` lines.
    """
    pages: list[list[Shown]] = [[]]
    for one in blocks:
        parts = [one] if texts else list(_parts(one, room))
        for part in parts:
            if pages[-1] and (len(parts) > 1 or sum(each.lines_in_all for each in (*pages[-1], part)) > room):
                pages.append([])
            pages[-1].append(part)
    *others, last = pages[-1]
    if below > 0 and not texts and sum(each.lines_in_all for each in pages[-1]) + below > room:
        least = max(room - below, room / 2)
        pages[-1:] = [*([others] if others else []), *([part] for part in _parts(last, least))]
    for number, page in enumerate(pages, start=1):
        yield page, number == len(pages)


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


def _environment(body: Body, blocks: Sequence[Shown], look: Look, *, continued: bool) -> list[str]:
    environment = "table*" if look.wide else "table"
    caption = " ".join(body.caption)
    label = rf"\label{{tab:{re.sub('[^A-Za-z0-9:.-]+', '-', look.label)}}}"
    tabulars = [line for i, one in enumerate(blocks) for line in ([r"\par\smallskip"] if i else []) + _tabular(one)]
    return [
        rf"\begin{{{environment}}}[t]",
        *([r"\addtocounter{table}{-1}"] if continued else []),
        # Words that cannot be broken may leave a line short, and never run over its end.
        r"\centering\sloppy",
        rf"\caption{{{_breakable(latex_escape(caption))}{' (continued)' if continued else ''}}}",
        *([label] if look.label and not continued else []),
        r"\smallskip",
        # Numbers are set in the letters of their cell, so that they can be bold.
        r"\sisetup{detect-weight=true,mode=text,group-digits=none}",
        *([rf"\{look.size}"] if look.size is not None else []),
        # Widths are those of letters, so they are stated in their unit.
        rf"\setlength{{\tabcolsep}}{{{GAP / 20:g}em}}",
        *tabulars,
        *_below(body.notes),
        rf"\end{{{environment}}}",
    ]


def _tabular(one: Shown) -> list[str]:
    lines = [" & ".join(_cells(row, one.forms)) + r" \\" for row in one.rows]
    for start in sorted({0, *one.groups}, reverse=True):
        if (title := one.titles.get(start)) is not None and title.text:
            emphasised = rf"\emph{{{latex_escape(title.text)}}}{f'$^{{{title.letter}}}$' if title.letter else ''}"
            lines.insert(start, rf"\multicolumn{{{_columns(one.forms)}}}{{@{{}}l}}{{{emphasised}}} \\")
        if start:
            lines.insert(start, r"\midrule")
    return [
        rf"\begin{{tabular}}{{@{{}}{''.join(map(_spec, one.forms))}@{{}}}}",
        r"\toprule",
        *_header(one),
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _columns(forms: Sequence[Form]) -> int:
    """Count the columns of a tabular. A number with an interval has two."""
    return sum(1 + bool(form.more) for form in forms)


def _spec(form: Form) -> str:
    if form.side == "text":
        return _TEXT
    if form.width is not None:
        return rf">{{\raggedright\hangindent=0.7em\arraybackslash}}p{{{form.width / 10:.1f}em}}"
    if form.side == "left":
        return "l"
    if form.digits is None:
        return "r"
    sign = r",table-space-text-post={$^{\dagger}$}" if form.sign else ""
    number = f"S[table-format={form.digits}{sign}]"
    return rf"{number}@{{\,}}l" if form.more else number


def _header(one: Shown) -> Iterator[str]:
    for heads in one.heads:
        cells, rules, at = [], [], 0
        for head in heads:
            forms = one.forms[at : at + head.span]
            wide, first = _columns(forms), _columns(one.forms[:at]) + 1
            cells.append(_head(head, forms, wide))
            if head.span > 1 and head.lines:
                rules.append(rf"\cmidrule(lr){{{first}-{first + wide - 1}}}")
            at += head.span
        yield " & ".join(cells) + r" \\" + (" " + "".join(rules) if rules else "")


def _head(head: Head, forms: Sequence[Form], wide: int) -> str:
    lines = [latex_escape(line) for line in head.lines]
    left = forms[0].side in ("left", "text")
    side = "l" if left else "r" if forms[0].digits is None and wide == 1 else "c"
    lines = [*lines[:-1], f"{lines[-1]}$^{{{head.letter}}}$"] if head.letter else lines
    joined = r"\\".join(lines)
    text = rf"\shortstack[{side}]{{{joined}}}" if len(lines) > 1 else joined
    if wide > 1:
        return rf"\multicolumn{{{wide}}}{{c}}{{{text}}}"
    return f"{{{text}}}" if forms[0].digits is not None else text


def _cells(row: Sequence[Cell], forms: Sequence[Form]) -> Iterator[str]:
    for cell, form in zip(row, forms, strict=True):
        text = _text(cell)
        if form.digits is None:
            more = f" {_more(cell)}" if cell.more else ""
            yield f"{text}{more}"
            continue
        number = DIGITS.fullmatch(cell.text) is not None
        yield text if number or not cell.text else f"{{{text}}}"
        if form.more:
            yield _more(cell, form.more)


def _text(cell: Cell) -> str:
    if cell.pieces:
        return "".join(
            rf"\textcolor{{{cell.colour}}}{{\textbf{{{latex_escape(piece)}}}}}" if marked else latex_escape(piece)
            for piece, marked in cell.pieces
        )
    number = DIGITS.fullmatch(cell.text) is not None
    text = _breakable(latex_escape(cell.text)) if cell.wraps else latex_escape(cell.text)
    text += "".join(map(latex_escape, cell.sign)) + (f"$^{{{cell.letter}}}$" if cell.letter else "")
    if not cell.bold:
        return text
    return rf"\bfseries {text}" if number else rf"\textbf{{{text}}}"


def _more(cell: Cell, most: int = 0) -> str:
    """Return what stands behind a number: its interval, small if it is a subscript, or what follows a ±.

    Args:
        most: the most characters of that in the column. Distances of fewer are moved to the right.
    """
    if cell.small and cell.more:
        return f"$_{{{cell.more}}}$"
    sign, _, distance = cell.more.rpartition("±")
    lacks = rf"\phantom{{{'0' * (most - len(cell.more))}}}" if distance and len(cell.more) < most else ""
    return f"{latex_escape(sign)}$\\pm${lacks}{latex_escape(distance)}" if distance else latex_escape(cell.more)


def _below(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    paragraphs = [rf"{_breakable(latex_escape(note))}\par" for note in notes]
    start = r"\begin{minipage}{\linewidth}\footnotesize\raggedright"
    return [r"\par\medskip", start, *paragraphs, r"\end{minipage}"]


def _breakable(text: str) -> str:
    """Allow a break of the line inside names such as `simcse-mini[variant=released]/mr` after their signs."""
    return re.sub(r"(\\_|[/=,:]|\{\[\})(?=\S)", r"\1\\allowbreak{}", text)
