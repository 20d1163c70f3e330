"""Writes a table as LaTeX that a paper takes as it is: booktabs, numbers aligned by their points, a label, a caption.

No table is scaled. `fitting` arranges one until it fits a column, then the page; what was done for that stands in a
note. A table that is higher than a page is set as several floats, one after the other, under one number, each with what
the signs in it mean. Texts are escaped to ASCII. It needs no packages but those of texlive-latex-recommended.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from rbench.errors import StoreError
from rbench.schema import FontSize
from rbench.tables import fitting
from rbench.tables.fitting import Arranged, Room
from rbench.tables.shapes import DIGITS, GAP, Cell, Form, Grid, Head, Place, Shown, wide

SIZES: dict[FontSize, float] = dict(zip(get_args(FontSize), (1.0, 0.93, 0.86, 0.81, 0.69), strict=True))
"""The widths of letters, as shares of those of the article. Small letters are wider for their height."""
_HEIGHTS: dict[FontSize, float] = dict(zip(get_args(FontSize), (1.0, 0.92, 0.81, 0.7, 0.6), strict=True))
"""The heights of lines, as shares of those of the article."""
_GAPS: dict[FontSize, float] = {"footnotesize": 6.0, "scriptsize": 5.0, "tiny": 5.0}
"""Points between columns in small letters, in letters of ten points."""
COLUMN, PAGE = 219.0, 455.0
"""Points of a column and of a page of the style of ACL, the narrowest of the usual ones in two columns."""
_PAGE = 35.5
"""Lines of a table that a page holds besides its caption and notes: an article of 10 or 11 points has 43 or 38."""
_NOTES, _CAPTION = 1, 1
"""Lines of notes, and of the caption, for which a page has room besides them."""
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
    """Whether it spans both columns of an article that has two (`table*`). It may do so, too, where no `width` is set
    and it does not fit a column."""
    size: FontSize | None = None
    """Of the table's body; None: that of the article, or the largest in which it fits: down to `footnotesize` in a
    column, and to `scriptsize` in what is wider."""
    width: float | None = None
    """Points that it may be wide; None: a column of an article of two, or its page."""
    label: str = ""
    """What `\\ref` calls it, without `tab:`; empty: it has no label."""

    def __post_init__(self) -> None:
        if self.size is not None and self.size not in SIZES:
            raise StoreError(f"unknown size {self.size!r}; LaTeX has {', '.join(SIZES)}")
        if self.width is not None and not 50 <= self.width <= 2000:
            raise StoreError(f"a table cannot be {self.width:g} points wide; a line of an article has 219 to 470")

    def rooms(self, body: Body) -> list[Room]:
        """Return the floats that a table may have, the preferred first."""
        pages = [True] if self.wide else [False] if self.width is not None else [False, True]
        found = []
        for page in pages:
            width = self.width if self.width is not None else PAGE if page else COLUMN
            sizes: list[FontSize] = ["normalsize", "small", "footnotesize"]
            sizes += ["scriptsize"] if width > 1.3 * COLUMN else []
            caption = max(0, math.ceil(wide(" ".join(body.caption)) * 1.095 / width) - _CAPTION)
            notes = [*body.legend.values(), *body.notes]
            lines = sum(math.ceil(wide(note) * 1.095 * SIZES["footnotesize"] / width) for note in notes)
            below = max(0, _HEIGHTS["footnotesize"] * lines - _NOTES)
            for size in [self.size] if self.size is not None else sizes:
                # Letters of eleven points, so that the table fits articles of ten and of eleven.
                letters, high = 1.095 * SIZES[size], _HEIGHTS[size]
                room = Room(width / letters, (_PAGE - caption) / high, below / high, list(SIZES).index(size), page)
                found.append(replace(room, gap=_GAPS.get(size, GAP)))
        return found


@dataclass(frozen=True)
class Body:
    """A table as text, not escaped."""

    caption: Sequence[str]
    """Sentences."""
    grid: Grid
    notes: Sequence[str]
    """Paragraphs below the table."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """What each sign in its entries means."""
    place: Place = "behind"
    """Where intervals stand, if there is room."""


def layout(body: Body, look: Look) -> str:
    """Write a table environment, or several if there are more rows than a page holds."""
    arranged = fitting.arranged(body.grid, look.rooms(body), body.place)
    texts = "text" in body.grid.sides
    packages = ["booktabs", "array", *(["xcolor"] if texts else [])]
    lines = ["% Needs " + " ".join(rf"\usepackage{{{name}}}" for name in packages)]
    said, notes = [*body.caption, *arranged.said], [*body.notes]
    if arranged.transposed:
        said, notes = [*map(_exchanged, said)], [*map(_exchanged, notes)]
    letters = {note.partition(":")[0]: note for note in arranged.notes}
    size = [*SIZES][arranged.room.size]
    done = _done(body, arranged, look)
    for number, blocks in enumerate(arranged.floats):
        last = number == len(arranged.floats) - 1
        legend = [*_used(blocks, letters, body.legend), *(notes if last else ()), *(done if number == 0 else ())]
        caption = said if number == 0 else [f"{said[0].rstrip('.')} (continued)."]
        part = replace(body, caption=caption, notes=legend)
        shown = None if size == "normalsize" and look.size is None else size
        how = replace(look, size=shown, wide=arranged.room.page)
        lines += _environment(part, blocks, how, continued=number > 0)
    return "\n".join(lines)


def _used(blocks: Sequence[Shown], letters: Mapping[str, str], legend: Mapping[str, str]) -> list[str]:
    """Return what the letters and signs in some blocks mean."""
    cells = [cell for one in blocks for row in (*one.rows, [*one.titles.values()]) for cell in row]
    there = {cell.letter for cell in cells} | {head.letter for one in blocks for line in one.heads for head in line}
    texts = {cell.text for cell in cells} | {sign for cell in cells for sign in cell.sign}
    signs = {sign for sign in legend if any(text == sign or text.startswith(f"{sign} ") for text in texts)}
    found = [*(letters[one] for one in letters if one in there), *(legend[sign] for sign in legend if sign in signs)]
    return [" ".join(found)] if found else []


def _done(body: Body, arranged: Arranged, look: Look) -> list[str]:
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
    if len(arranged.floats) > 1:
        done.append(f"the table has {len(arranged.floats)} parts")
    return [f"To fit: {', '.join(done)}."] if done else []


def _exchanged(text: str) -> str:
    """Exchange the words of rows and columns."""
    other = {"row": "column", "column": "row"}
    return re.sub(r"\b(row|column)(?=s?\b)", lambda found: other[found[0]], text)


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
        rf"\caption{{{_breakable(latex_escape(caption))}}}",
        *([label] if look.label and not continued else []),
        r"\smallskip",
        *([rf"\{look.size}"] if look.size is not None else []),
        # Widths are those of letters, so they are stated in their unit.
        rf"\setlength{{\tabcolsep}}{{{blocks[0].gap / 20:g}em}}",
        *tabulars,
        *_below(body.notes),
        rf"\end{{{environment}}}",
    ]


def _tabular(one: Shown) -> list[str]:
    lines = [_row(one, i) for i in range(len(one.rows))]
    for start in sorted({0, *one.groups}, reverse=True):
        if (title := one.titles.get(start)) is not None and title.text:
            emphasised = rf"\emph{{{latex_escape(title.text)}}}{f'$^{{{title.letter}}}$' if title.letter else ''}"
            lines.insert(start, rf"\multicolumn{{{_columns(one.forms)}}}{{@{{}}l}}{{{emphasised}}} \\")
        if start:
            lines.insert(start, r"\midrule")
    below = any(map(one.below, range(len(one.rows))))
    return [
        rf"\begin{{tabular}}{{@{{}}{''.join(_spec(form, below) for form in one.forms)}@{{}}}}",
        r"\toprule",
        *_header(one),
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _row(one: Shown, at: int) -> str:
    row = one.rows[at]
    if not one.below(at):
        return " & ".join(_cells(row, one.forms)) + r" \\"
    # The second line of a name stands beside the intervals.
    low = [replace(cell, raised=True) if form.width else cell for cell, form in zip(row, one.forms, strict=True)]
    text = " & ".join(_cells(low, one.forms)) + r" \\"
    # A line of small letters needs less than a whole line.
    intervals = " & ".join(_small(cell.more) if cell.place == "below" else "" for cell in row)
    return rf"{text}[-0.25em]" + f"\n{intervals} " + r"\\"


def _columns(forms: Sequence[Form]) -> int:
    """Count the columns of a tabular. A number with an interval behind it has two."""
    return sum(1 + bool(form.more) for form in forms)


def _spec(form: Form, below: bool) -> str:
    if form.side == "text":
        return _TEXT
    if form.width is not None:
        return rf">{{\raggedright\hangindent=0.7em\arraybackslash}}p{{{form.width / 10:.1f}em}}"
    if form.side == "left":
        return "l"
    return r"r@{\,}l" if form.more else "c" if below and form.digits is not None else "r"


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
    side = "l" if left else "r" if wide == 1 else "c"
    lines = [*lines[:-1], f"{lines[-1]}$^{{{head.letter}}}$"] if head.letter else lines
    joined = r"\\".join(lines)
    text = rf"\shortstack[{side}]{{{joined}}}" if len(lines) > 1 else joined
    return rf"\multicolumn{{{wide}}}{{c}}{{{text}}}" if wide > 1 else text


def _cells(row: Sequence[Cell], forms: Sequence[Form]) -> Iterator[str]:
    for cell, form in zip(row, forms, strict=True):
        text = _text(cell)
        if DIGITS.fullmatch(cell.text) and form.digits is not None:
            text += _lacking(cell, form)
        behind = _more(cell, form.more) if cell.more and cell.place != "below" else ""
        if form.more:
            yield text
            yield behind
        else:
            yield f"{text} {behind}" if behind else text


def _lacking(cell: Cell, form: Form) -> str:
    """Return as much space as the longest numbers of a column have more behind their points: so all are aligned."""
    _, point, digits = cell.text.partition(".")
    lacks = "." * (not point and bool(form.digits)) + "0" * ((form.digits or 0) - len(digits))
    signs = "†" * (form.sign - len(cell.sign))
    phantom = lacks + "".join(map(latex_escape, signs))
    return rf"\phantom{{{phantom}}}" if phantom else ""


def _text(cell: Cell) -> str:
    if cell.pieces:
        return "".join(
            rf"\textcolor{{{cell.colour}}}{{\textbf{{{latex_escape(piece)}}}}}" if marked else latex_escape(piece)
            for piece, marked in cell.pieces
        )
    number = DIGITS.fullmatch(cell.text) is not None
    text = _breakable(latex_escape(cell.text)) if cell.wraps else latex_escape(cell.text)
    text = rf"$-${text[1:]}" if number and text.startswith("-") else text
    text = rf"\textbf{{{text}}}" if cell.bold else text
    text += "".join(map(latex_escape, cell.sign)) + (f"$^{{{cell.letter}}}$" if cell.letter else "")
    if cell.raised:
        return rf"\smash{{\parbox[t]{{\linewidth}}{{\raggedright\hangindent=0.7em {text}}}}}"
    return text


def _more(cell: Cell, most: int = 0) -> str:
    """Return what stands behind a number: its interval, or what follows a ±.

    Args:
        most: the most characters of that in the column. Distances of fewer are moved to the right.
    """
    if cell.place == "small":
        return f"$_{{{_math(cell.more)}}}$"
    if "±" not in cell.more:
        return latex_escape(cell.more)
    sign, _, distance = cell.more.rpartition("±")
    lacks = rf"\phantom{{{'0' * (most - len(cell.more))}}}" if len(cell.more) < most else ""
    return f"{latex_escape(sign)}$\\pm${lacks}{latex_escape(distance)}"


def _small(text: str) -> str:
    return rf"$\scriptstyle {_math(text)}$" if text else ""


def _math(text: str) -> str:
    return text.replace("±", r"\pm ").replace("–", r"\mbox{--}")


def _below(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    paragraphs = [rf"{_breakable(latex_escape(note))}\par" for note in notes]
    start = r"\begin{minipage}{\linewidth}\footnotesize\raggedright"
    return [r"\par\medskip", start, *paragraphs, r"\end{minipage}"]


def _breakable(text: str) -> str:
    """Allow a break of the line inside names such as `simcse-mini[variant=released]/mr` after their signs."""
    return re.sub(r"(\\_|[/=,:]|\{\[\})(?=\S)", r"\1\\allowbreak{}", text)
