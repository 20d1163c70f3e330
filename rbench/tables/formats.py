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
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from tabulate import tabulate

from rbench.errors import StoreError
from rbench.schema import Notes
from rbench.system.console import cell as escaped
from rbench.system.console import harmless
from rbench.tables import latex
from rbench.tables.latex import latex_escape
from rbench.tables.table import Beside, Draws, Entry, Marked, Number, Side, Table

Format = Literal["markdown", "latex", "csv", "json"]
NAMED = 8
"""The most jobs or encoders that a note names. It counts the others."""
_ABSENT, _PARTIAL, _UNDEFINED, _WITHHELD, _CITED = "–", "†", "n/a", "—", "‡"
LOST = "no outcomes"
"""Stands where a number is computed from outcomes, and the RUN keeps none."""


def render(
    table: Table, fmt: str, intervals: bool = False, notes: Notes = "full", look: latex.Look | None = None
) -> str:
    """Render the table in one of the four formats, without a final newline.

    Args:
        fmt: `markdown`, `latex`, `csv` or `json`.
        intervals: whether markdown and latex show intervals. The formats csv and json always have them.
        notes: what stands below in markdown and latex: all notes, one paragraph with the most important, or nothing.
        look: how LaTeX sets the table.

    Raises StoreError for an unknown format.
    """
    if fmt == "markdown":
        return _markdown(table, intervals, notes)
    if fmt == "latex":
        return _latex(table, intervals, notes, look or latex.Look())
    if fmt == "csv":
        return _csv(table)
    if fmt == "json":
        return _json(table)
    raise unknown("format", fmt, get_args(Format))


def unknown(what: str, name: object, known: Sequence[str]) -> StoreError:
    """Return the error for an unknown name. It lists the known names and suggests the nearest one."""
    near = difflib.get_close_matches(str(name), known, n=1)
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
    if entry.lost:
        return LOST
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


def beside(entry: Beside, intervals: bool = False) -> str:
    """Format a printed number with ours: `84.2 (76.5*, +7.7)`, a star where it lies in our interval. Without ours it is
    alone: `76.5`, with a `‡` where the paper cites it."""
    printed = (entry.printed or _UNDEFINED) + ("*" if entry.inside else "") + (_CITED if entry.cited else "")
    if entry.ours is None or entry.ours.value is None:
        return printed
    less = f", {entry.ours.value - float(entry.printed):+.{entry.ours.digits}f}" if entry.printed else ""
    return f"{number(entry.ours, intervals)} ({printed}{less})"


def text_of(entry: Entry) -> str:
    """Return an entry as text, without its interval."""
    if isinstance(entry, Beside):
        return beside(entry)
    if isinstance(entry, Number):
        return number(entry)
    return "" if entry is None else str(entry)


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
        if isinstance(entry, Beside):
            return escape(beside(entry, intervals))
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


def caption(table: Table) -> str:
    """Return what stands above a table: its metric, what that is, and what is bold."""
    return _said(table) + (f"; {table.of}" if table.of else "")


def _said(table: Table) -> str:
    meaning = table.meaning
    if table.caption:
        return table.caption
    if table.layout == "full" and table.about is None:
        return "Every metric of every attack job; shares in %"
    bold = any(number.best for number in _numbers(table))
    if table.about is not None:
        unit = f", {meaning.unit}" if meaning.percent else ""
        arrow = f" {meaning.arrow}" if meaning.best else ""
        said = f"; {_bold(table, f'the {meaning.best}')}" if bold and meaning.best else ""
        return f"{meaning.title}{unit}{arrow}: {meaning.definition}{said}"
    if table.layout == "by-task":
        said = f" ({_bold(table, table.best)})" if bold else ""
        return f"Clean accuracy, attack success rate (ASR) and words perturbed, by task, %{said}"
    if table.best:
        return f"{meaning.title}: {meaning.definition}" + (f"; {_bold(table, table.best)}" if bold else "")
    unit = f", {meaning.unit}" if meaning.percent else ""
    if meaning.best is None:
        return f"{meaning.title}{unit}: {meaning.definition}"
    better = "lower" if meaning.best == "lowest" else "higher"
    said = f"; {_bold(table, f'the {meaning.best}')}" if bold else ""
    return f"{meaning.title}{unit} {meaning.arrow} ({better} is {meaning.good}{said})"


def _bold(table: Table, best: str) -> str:
    """Say what is bold in this very table."""
    among = "of each task and column" if table.layout == "by-task" else table.meaning.among
    return f"bold: {best} {among}{table.bold}"


def _numbers(table: Table) -> list[Number]:
    return [entry for row in table.rows for entry in row if isinstance(entry, Number)]


def _footnotes(table: Table, intervals: bool, notes: Notes) -> list[str]:
    """Return what stands below the table: its notes, and the meaning of each sign that it uses.

    In short it is one paragraph. A table without short notes has the full ones.
    """
    if notes == "none":
        return []
    numbers = _numbers(table)
    signs = {
        f"{_ABSENT}: not done.": any(entry is None for row in table.rows for entry in row),
        f"{_PARTIAL}: some seeds are missing, or some of what it is picked from.": any(
            number.partial for number in numbers
        ),
        f"{_UNDEFINED}: {table.meaning.undefined}.": any(
            number.value is None and not number.withheld and not number.lost for number in numbers
        ),
        f"{LOST}: it is computed from outcomes, and the RUN keeps none that can be read.": any(
            number.lost and not number.withheld for number in numbers
        ),
        f"{_WITHHELD}: withheld for a flag, because the suite requires healthy encoders, victims and attacks.": any(
            number.withheld for number in numbers
        ),
    }
    shown = [sign for sign, there in signs.items() if there]
    shown += [table.interval] if intervals and table.interval else []
    if notes == "short" and table.brief:
        *said, more = table.brief
        return [" ".join([*said, *shown, more])]
    return [*table.notes, *shown]


def _aligned(table: Table) -> list[Side]:
    """Return how each column is set: names and words flush left, numbers flush right, marked texts as texts.

    The columns before the first that holds computed numbers are names, even if a name is a number.
    """
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    computed = [any(not isinstance(entry, str) for entry in column) for column in columns]
    names = computed.index(True) if any(computed) else 0
    return ["left" if i < names else _side(column) for i, column in enumerate(columns)]


def _side(column: Sequence[Entry]) -> Side:
    """Return how a column is set by what it holds. Two numbers (`-3.1 to 2.0`) are as good as one, and so is none."""
    if any(isinstance(entry, Marked) for entry in column):
        return "text"
    words = (re.sub(" to |n/a", "", entry) for entry in column if isinstance(entry, str))
    return "left" if any(map(str.isalpha, "".join(words))) else "right"


def markdown_escape(text: str) -> str:
    """Escape text for a cell of a pipe table: without cells, emphasis, links, code, HTML or control characters."""
    text = harmless(re.sub(r"\s+", " ", text))
    text = re.sub(r"([\\|*`]|~(?=~)|(?<=~)~|(?<!\w)_|_(?!\w)|^\[|\](?=[(\[]))", r"\\\1", text)
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    # A < before a space or a digit opens no tag, and a > between spaces closes none. A terminal shows them as they are.
    # At the start of a text a > would open a quotation.
    return re.sub(r"(?<!\S )>|>(?! )", "&gt;", re.sub(r"<(?![ \d])", "&lt;", text))


def _markdown(table: Table, intervals: bool, notes: Notes) -> str:
    sides = ["right" if side == "right" else "left" for side in _aligned(table)]
    header = [markdown_escape(name) for name in table.header]
    rows = _grid(table, intervals, markdown_escape, lambda text: f"**{text}**")
    body = tabulate(rows, headers=header, tablefmt="pipe", disable_numparse=True, colalign=sides)
    text = f"**{markdown_escape(caption(table))}**\n\n{body}"
    below = [markdown_escape(note) for note in _footnotes(table, intervals, notes)]
    bullet = "" if notes == "short" and table.brief else "- "
    return "\n\n".join([text, *(["\n".join(f"{bullet}{note}" for note in below)] if below else [])])


def _latex(table: Table, intervals: bool, notes: Notes, look: latex.Look) -> str:
    body = latex.Body(
        caption=caption(table),
        header=[latex_escape(name) for name in table.header],
        rows=_grid(table, intervals, latex_escape, latex.bold, latex.coloured),
        groups=sorted(table.groups),
        aligned=_aligned(table),
        notes=_footnotes(table, intervals, notes),
    )
    return latex.layout(body, look)


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
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([escaped(name) for name in names])
    writer.writerows([escaped(row.get(name)) for name in names] for row in rows)
    return harmless(file.getvalue().rstrip("\n"))


def _json(table: Table) -> str:
    meaning = table.meaning
    unit = [meaning.stored] if table.layout == "full" or meaning.percent else []
    notes = [*table.notes, table.interval, *unit]
    content = {"metric": table.metric, "cells": list(table.cells), "flags": list(table.flags), "notes": notes}
    return harmless(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
