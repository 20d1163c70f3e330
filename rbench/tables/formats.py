"""Renders tables as text. Only this module rounds numbers and escapes texts.

markdown, latex   for people: percentages with one decimal, `51.2 [45.0, 57.3]` with intervals, notes below
csv, json         for programs: one entry per cell, full precision, shares as fractions of 1, always with intervals
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from tabulate import tabulate

from rbench.errors import StoreError
from rbench.tables.table import Draws, Entry, Marked, Number, Table

Format = Literal["markdown", "latex", "csv", "json"]
NAMED = 8
"""The most jobs or encoders that a note names. It counts the others."""
_ABSENT, _PARTIAL, _UNDEFINED, _WITHHELD = "–", "†", "n/a", "—"


def render(table: Table, fmt: str, intervals: bool = False) -> str:
    """Render the table in one of the four formats, without a final newline.

    `intervals` shows intervals in markdown and latex. The formats csv and json always have them. Raises StoreError for
    an unknown format.
    """
    if fmt == "markdown":
        return _markdown(table, intervals)
    if fmt == "latex":
        return _latex(table, intervals)
    if fmt == "csv":
        return _csv(table)
    if fmt == "json":
        return _json(table)
    raise unknown("format", fmt, get_args(Format))


def unknown(what: str, name: str, known: Sequence[str]) -> StoreError:
    """Return the error for an unknown name. It lists the known names and suggests the nearest one."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return StoreError(f"unknown {what} {name!r}; there are {', '.join(known)}.{hint}")


def number(entry: Number, intervals: bool = False) -> str:
    """Format an entry: `51.2`, with intervals `51.2 ± 1.3 [45.0, 57.3]`, `n/a` where it has no value, or a dash and the
    flags for which it is withheld.

    With `train_seeds`, the spreads stand there without intervals too: between training seeds, then between fine-tuning
    seeds where there are several: `51.2 ± 2.0/1.3`.
    """
    if entry.withheld:
        return withheld(entry.withheld)
    if entry.value is None:
        return _UNDEFINED
    text = entry.shown(entry.value) + (_PARTIAL if entry.partial else "")
    if entry.draws is not None:
        text += _spreads(entry, entry.draws)
    elif intervals and entry.seed_sd is not None:
        text += f" ± {entry.shown(entry.seed_sd)}"
    if intervals and entry.low is not None and entry.high is not None:
        text += f" [{entry.shown(entry.low)}, {entry.shown(entry.high)}]"
    return text


def withheld(flags: Sequence[str]) -> str:
    """Format an entry that a suite withholds: `— near chance`."""
    return f"{_WITHHELD} {', '.join(flags)}"


def listed(names: Sequence[str]) -> str:
    """List the first names, and count the others."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def brief(value: float) -> str:
    """Format a number of any size in three significant digits, for a note."""
    return f"{value:.3g}"


def _spreads(entry: Number, draws: Draws) -> str:
    """Format the standard deviations between training seeds and fine-tuning seeds. A missing one is a dash."""
    spreads = [draws.sd, entry.seed_sd] if draws.tuned else [draws.sd]
    if all(sd is None for sd in spreads):
        return ""
    return " ± " + "/".join(_ABSENT if sd is None else entry.shown(sd) for sd in spreads)


def _grid(
    table: Table,
    intervals: bool,
    escape: Callable[[str], str],
    bold: Callable[[str], str],
    colour: Callable[[str, str], str] = lambda text, _: text,
) -> list[list[str]]:
    """Return all entries as text. In the layout paper, a first column that repeats the row above is left empty."""

    def text(entry: Entry) -> str:
        if entry is None:
            return escape(_ABSENT)
        if isinstance(entry, Number):
            shown = escape(number(entry, intervals))
            return bold(shown) if entry.best else shown
        if isinstance(entry, Marked):
            return "".join(
                colour(bold(escape(piece)), entry.colour) if marked else escape(piece) for piece, marked in entry.pieces
            )
        return escape(str(entry))

    rows = [[text(entry) for entry in row] for row in table.rows]
    if table.layout == "paper":
        starts = {0, *table.groups}
        names = [row[0] for row in rows]
        rows = [["", *row[1:]] if i not in starts and row[0] == names[i - 1] else row for i, row in enumerate(rows)]
    return rows


def _caption(table: Table) -> str:
    meaning = table.meaning
    if table.metric == "positives":
        return f"{meaning.title}: {meaning.definition}"
    if table.about is not None:
        unit = f", {meaning.unit}" if meaning.percent else ""
        arrow = f" {meaning.arrow}" if meaning.best else ""
        return f"{meaning.title}{unit}{arrow}: {meaning.definition}"
    if table.layout == "full":
        return _WHOLE.get(table.metric, "Every metric of every attack job; shares in %")
    unit = f", {meaning.unit}" if meaning.percent else ""
    better = "lower" if meaning.best == "lowest" else "higher"
    bold = f"; bold: the {meaning.best} {meaning.among}" if any(number.best for number in _numbers(table)) else ""
    return f"{meaning.title}{unit} {meaning.arrow} ({better} is {meaning.good}{bold})"


_WHOLE: dict[str, str] = {
    "sts": "Every evaluation; correlations ×100",
    "contrast": "Every evaluation on a contrast set; shares in %",
}
"""Captions of the layout `full` of evaluations."""


def _numbers(table: Table) -> list[Number]:
    return [entry for row in table.rows for entry in row if isinstance(entry, Number)]


def _footnotes(table: Table, intervals: bool) -> list[str]:
    """Return the table's notes, and the meaning of each sign that it uses."""
    numbers = _numbers(table)
    signs = {
        f"{_ABSENT}: not done.": any(entry is None for row in table.rows for entry in row),
        f"{_PARTIAL}: some seeds are missing, or some of what it is picked from.": any(
            number.partial for number in numbers
        ),
        f"{_UNDEFINED}: {table.meaning.undefined}.": any(
            number.value is None and not number.withheld for number in numbers
        ),
        f"{_WITHHELD}: withheld for a flag, because the suite requires healthy encoders, victims and attacks.": any(
            number.withheld for number in numbers
        ),
    }
    shown = [sign for sign, there in signs.items() if there]
    return [*table.notes, *shown, *([table.interval] if intervals and table.interval else [])]


def _texts(table: Table) -> bool:
    """Whether the table has texts with marked pieces."""
    return any(isinstance(entry, Marked) for row in table.rows for entry in row)


def _left(table: Table) -> int:
    """Return the number of leading columns that hold names."""
    first = table.rows[0] if table.rows else ()
    return sum(isinstance(entry, str) for entry in first)


# --------------------------------------------------------------------------------------------------------- markdown


def _markdown(table: Table, intervals: bool) -> str:
    left = _left(table)
    body = tabulate(
        _grid(table, intervals, markdown_escape, lambda text: f"**{text}**"),
        headers=[markdown_escape(name) for name in table.header],
        tablefmt="pipe",
        disable_numparse=True,
        colalign=["left"] * left + ["left" if _texts(table) else "right"] * (len(table.header) - left),
    )
    notes = "\n".join(f"- {markdown_escape(note)}" for note in _footnotes(table, intervals))
    return f"**{markdown_escape(_caption(table))}**\n\n{body}\n\n{notes}"


def markdown_escape(text: str) -> str:
    """Escape text for a cell of a pipe table: it makes no new cells, emphasis, links, code or HTML."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"([\\|*`]|(?<!\w)_|_(?!\w)|^\[|\](?=[(\[]))", r"\\\1", text)
    return re.sub(r"&(?=#?\w+;)", "&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


# ------------------------------------------------------------------------------------------------------------ LaTeX

_BREAK = "\u200b"
"""Placed between two hyphens so that LaTeX does not make them a dash."""
_LATEX = {
    _BREAK: "{}",
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", '"': "''",
    "†": r"$^{\dagger}$", "±": r"$\pm$", "–": "--", "—": "---", "↓": r"$\downarrow$", "↑": r"$\uparrow$",
    "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$", "“": "``", "”": "''", "‘": "`", "’": "'", "…": r"\ldots{}",
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


def _latex(table: Table, intervals: bool) -> str:
    left = _left(table)
    rows = _grid(
        table,
        intervals,
        latex_escape,
        lambda text: rf"\textbf{{{text}}}",
        lambda text, colour: rf"\textcolor{{{colour}}}{{{text}}}",
    )
    coloured = _texts(table)
    column = r"p{0.6\linewidth}" if coloured else "r"
    lines = [" & ".join(row) + r" \\" for row in rows]
    for start in sorted(table.groups, reverse=True):
        lines.insert(start, r"\midrule")
    notes = [rf"{latex_escape(note)}\par" for note in _footnotes(table, intervals)]
    return "\n".join(
        [
            r"% Needs \usepackage{booktabs}" + (r" and \usepackage{xcolor}" if coloured else ""),
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{latex_escape(_caption(table))}}}",
            rf"\begin{{tabular}}{{{'l' * left}{column * (len(table.header) - left)}}}",
            r"\toprule",
            " & ".join(map(latex_escape, table.header)) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\medskip",
            r"\begin{minipage}{\linewidth}\footnotesize\raggedright",
            *notes,
            r"\end{minipage}",
            r"\end{table}",
        ]
    )


# ------------------------------------------------------------------------------------------------------- for programs


def _csv(table: Table) -> str:
    rows = []
    for cell in table.cells:
        row = {"metric": table.metric, **{k: v for k, v in cell.items() if k not in ("scores", "flags")}}
        for metric, score in cell.get("scores", {}).items():
            row |= {metric if field == "value" else f"{metric}_{field}": value for field, value in score.items()}
        if "flags" in cell:
            row["flags"] = None if cell["flags"] is None else "; ".join(cell["flags"]) or "none"
        rows.append(row)
    file = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(file, fieldnames=list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().rstrip("\n")


def _json(table: Table) -> str:
    meaning = table.meaning
    unit = [meaning.stored] if table.layout == "full" or meaning.percent else []
    notes = [*table.notes, table.interval, *unit]
    content = {"metric": table.metric, "cells": list(table.cells), "flags": list(table.flags), "notes": notes}
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
