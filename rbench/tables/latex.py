"""Writes a table as LaTeX that compiles with any engine and fits its column.

A table that is wider than its column is scaled down to it, and no other. In an article of two columns `wide` makes it
as wide as the page. A table that is higher than a page is set as several, one after the other, under one number. Texts
are escaped to ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from rbench.errors import StoreError
from rbench.schema import FontSize
from rbench.tables.table import Side

SIZES: tuple[str, ...] = get_args(FontSize)
_PAGE = 38
"""Lines of a table that a page holds besides its caption and notes: an article of 10 or 11 points has 43 or 38."""
_LINE, _WIDE = 345.0, 505.0
"""Points of a line in an article of one column, and of both columns in one of two."""
_CHARACTER, _GAP = 4.5, 12.0
"""Points of a narrow character, and between columns."""
_COLUMN: dict[Side, str] = {"left": "l", "right": "r", "text": r"p{0.6\linewidth}"}
_BREAK = "\u200b"
"""Placed between two hyphens so that LaTeX does not make them a dash."""
_LATEX = {
    _BREAK: "{}",
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", '"': "''",
    "†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$", "±": r"$\pm$", "–": "--", "—": "---",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$",
    "“": "``", "”": "''", "‘": "`", "’": "'", "…": r"\ldots{}",
    "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "ł": r"\l{}",
    "Ł": r"\L{}", "ı": r"\i{}", **{char: "\\" + char for char in "{}$&#_%"},
}  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip


def latex_escape(text: str) -> str:
    """Escape text as ASCII LaTeX that compiles with any engine. Unsupported characters become, e.g., `[U+4E2D]`."""
    text = re.sub(r"\s+", " ", unicodedata.normalize("NFC", text))
    return "".join(map(_latex_character, re.sub("-(?=-)", f"-{_BREAK}", text)))


def _latex_character(char: str) -> str:
    if char in _LATEX:
        return _LATEX[char]
    if " " <= char <= "~":
        return char
    decomposed = unicodedata.normalize("NFD", char)
    if len(decomposed) == 2 and decomposed[0].isascii() and decomposed[1] in _ACCENTS:
        return f"\\{_ACCENTS[decomposed[1]]}{{{decomposed[0]}}}"
    return f"{{[}}U+{ord(char):04X}{{]}}"


def bold(text: str) -> str:
    """Set escaped text in bold."""
    return rf"\textbf{{{text}}}"


def coloured(text: str, colour: str) -> str:
    """Set escaped text in a colour of the package xcolor."""
    return rf"\textcolor{{{colour}}}{{{text}}}"


@dataclass(frozen=True)
class Look:
    """How a table is set."""

    wide: bool = False
    """Whether it spans both columns of an article that has two (`table*`)."""
    size: FontSize | None = None
    """Of the table's body; None: that of the article."""

    def __post_init__(self) -> None:
        if self.size is not None and self.size not in SIZES:
            raise StoreError(f"unknown size {self.size!r}; LaTeX has {', '.join(SIZES)}")


@dataclass(frozen=True)
class Body:
    """A table as text. Header and rows are escaped, caption and notes are not."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[int]
    """The rows before which there is a line."""
    aligned: Sequence[Side]
    """How each column is set."""
    notes: Sequence[str]
    """Paragraphs below the table."""

    def __post_init__(self) -> None:
        columns = {len(self.header), len(self.aligned), *map(len, self.rows)}
        if len(columns) > 1:  # LaTeX would say `Extra alignment tab`, or nothing, and only to who compiles the table
            raise ValueError(f"header, rows and alignment have {sorted(columns)} columns; they must have the same")

    @property
    def texts(self) -> bool:
        """Whether a column holds texts of several lines."""
        return "text" in self.aligned


def layout(body: Body, look: Look) -> str:
    """Write a table environment, or several if there are more rows than a page holds."""
    packages = ["booktabs", "graphicx", *(["xcolor"] if body.texts else [])]
    lines = ["% Needs " + " ".join(rf"\usepackage{{{name}}}" for name in packages)]
    for number, part in enumerate(_pages(body, _PAGE / _scale(body, look))):
        lines += _environment(part, look, continued=number > 0)
    return "\n".join(lines)


def _scale(body: Body, look: Look) -> float:
    """Return about how much LaTeX scales a table down, 0..1, so that it is as wide as a line; rather too little."""
    texts = [[re.sub(r"\\[a-zA-Z]+|[\\{}$]", "", cell) for cell in row] for row in (body.header, *body.rows)]
    widths = [max(map(len, column)) * _CHARACTER + _GAP for column in zip(*texts, strict=True)]
    return min(1.0, (_WIDE if look.wide else _LINE) / sum(widths))


def _pages(body: Body, page: float) -> Iterator[Body]:
    """Divide a table into parts of at most `page` lines, between groups where it can. The last part has the notes."""
    start = 0
    while _height(body, start, len(body.rows)) > page and not body.texts:
        fitting = [end for end in range(start + 1, len(body.rows)) if _height(body, start, end) <= page]
        end = max([end for end in fitting if end in body.groups] or fitting)
        yield replace(_rows(body, start, end), notes=())
        start = end
    yield _rows(body, start, len(body.rows))


def _height(body: Body, start: int, end: int) -> float:
    """Return the height of some rows in lines of text. A rule takes half a line."""
    return end - start + sum(start < group < end for group in body.groups) / 2


def _rows(body: Body, start: int, end: int) -> Body:
    groups = [group - start for group in body.groups if start < group < end]
    rows = [list(row) for row in body.rows[start:end]]
    if rows:
        # The name of a group stands in its first row only, and a page that begins within a group says it again.
        rows[0][0] = next((row[0] for row in reversed(body.rows[: start + 1]) if row[0]), "")
    return replace(body, rows=rows, groups=groups)


def _environment(body: Body, look: Look, *, continued: bool) -> list[str]:
    environment = "table*" if look.wide else "table"
    columns = "".join(_COLUMN[side] for side in body.aligned)
    lines = [" & ".join(row) + r" \\" for row in body.rows]
    for start in sorted(body.groups, reverse=True):
        lines.insert(start, r"\midrule")
    return [
        rf"\begin{{{environment}}}[t]",
        *([r"\addtocounter{table}{-1}"] if continued else []),
        # Words that cannot be broken may leave a line short, and never run over its end.
        r"\centering\sloppy",
        rf"\caption{{{_breakable(latex_escape(body.caption))}{' (continued)' if continued else ''}}}",
        *([rf"\{look.size}"] if look.size is not None else []),
        # The width of the box itself is `\width`: a narrower table keeps its size.
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(body.header) + r" \\",
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}%",
        "}",
        *_below(body.notes),
        rf"\end{{{environment}}}",
    ]


def _below(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    paragraphs = [rf"{_breakable(latex_escape(note))}\par" for note in notes]
    start = r"\begin{minipage}{\linewidth}\footnotesize\raggedright"
    return [r"\par\medskip", start, *paragraphs, r"\end{minipage}"]


def _breakable(text: str) -> str:
    """Allow a break of the line inside names such as `simcse-mini[variant=released]/mr` after their signs."""
    return re.sub(r"(\\_|[/=,])(?=[^\s\\{}])", r"\1\\allowbreak{}", text)
