"""Renders tables as text. Only this module rounds numbers and escapes texts.

markdown, latex   for people: percentages with one decimal, `51.2 [45.0, 57.3]` with intervals, notes below
csv, json         for programs: one entry per cell, full precision, shares as fractions of 1, always with intervals
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from tabulate import tabulate

from rbench.errors import StoreError
from rbench.schema import IntervalStyle, Notes
from rbench.system.console import cell as escaped
from rbench.system.console import harmless
from rbench.tables.shapes import Cell, Grid, Place
from rbench.tables.table import FLAGGED, PARTIAL, Beside, Draws, Entry, Marked, Number, Side, Table

if TYPE_CHECKING:
    from rbench.tables.latex import Look

Format = Literal["markdown", "latex", "csv", "json"]
NAMED = 8
"""The most jobs or encoders that a note names. It counts the others."""
_ABSENT, _UNDEFINED, _WITHHELD, _CITED = "–", "n/a", "—", "‡"
SIGNS = {
    FLAGGED: f"{FLAGGED}: flagged, or an average with a flagged part.",
    PARTIAL: f"{PARTIAL}: some seeds are missing, or some of what it is picked from.",
}
"""What the signs behind numbers say, for notes."""
LOST = "no outcomes"
"""Stands where a number is computed from outcomes, and the RUN keeps none."""


Intervals = bool | IntervalStyle
"""Whether a table shows intervals, or how; True: as is usual for its format."""


def render(
    table: Table, fmt: str, intervals: Intervals = False, notes: Notes = "full", look: Look | None = None
) -> str:
    """Render the table in one of the four formats, without a final newline.

    Args:
        fmt: `markdown`, `latex`, `csv` or `json`.
        intervals: whether markdown and latex show intervals, and how: in brackets if it is True. The formats csv and
            json always have them.
        notes: what stands below in markdown and latex: all notes, one paragraph with the most important, or nothing.
        look: how LaTeX sets the table.

    Raises StoreError for an unknown format.
    """
    if fmt == "markdown":
        return _markdown(table, intervals, notes)
    if fmt == "latex":
        return _latex(table, "brackets" if intervals is True else intervals, notes, look)
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


def number(entry: Number, intervals: Intervals = False) -> str:
    """Format an entry: `51.2`, flagged `51.2†`, with intervals `51.2 [45.0, 57.3]` or `51.2 ± 6.2`, `n/a` where it has
    no value, or a dash and the flags for which it is withheld.

    With `train_seeds` and without intervals, spreads stand there: between training seeds, then between fine-tuning
    seeds where there are several: `51.2 ± 2.0/1.3`.
    """
    if entry.withheld:
        return withheld(entry.withheld)
    if entry.lost:
        return LOST
    if entry.value is None:
        return _UNDEFINED
    more = sure(entry, intervals)
    return entry.shown(entry.value) + entry.signs + (f" {more}" if more else "")


def sure(entry: Number, intervals: Intervals) -> str:
    """Format what stands behind a number that has a value: its interval or its spread, and never both."""
    if intervals not in (False, "spread"):
        if entry.value is None or entry.low is None or entry.high is None:
            return ""
        if intervals == "pm":
            return f"± {entry.shown(max(entry.high - entry.value, entry.value - entry.low))}"
        return f"[{entry.shown(entry.low)}, {entry.shown(entry.high)}]"
    if entry.draws is not None:
        return _spreads(entry, entry.draws)
    return f"± {entry.shown(entry.seed_sd)}" if intervals and entry.seed_sd is not None else ""


def beside(entry: Beside, intervals: Intervals = False) -> str:
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
    return "± " + "/".join(_ABSENT if sd is None else entry.shown(sd) for sd in spreads)


def _grid(
    table: Table, intervals: Intervals, escape: Callable[[str], str], bold: Callable[[str], str]
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
            return "".join(bold(escape(piece)) if marked else escape(piece) for piece, marked in entry.pieces)
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


def _said(table: Table, *, with_bold: bool = True) -> str:
    meaning = table.meaning
    if table.caption:
        return table.caption
    if table.layout == "full" and table.about is None:
        return "Every metric of every attack job; shares in %"
    bold = with_bold and any(number.best for number in _numbers(table))
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


_LIMITS: dict[IntervalStyle, str] = {
    "brackets": "Brackets hold intervals.",
    "subscript": "Brackets hold intervals.",
    "pm": "± is the larger distance of a number from a limit of its interval.",
}
_BETWEEN = "± is the standard deviation between seeds."
_COMMANDS = re.compile(r"(?<!\w)--?[a-z]|\brbench\b|`")
"""What a sentence has that is for people at a command line, and not for readers of a paper."""


def _sentences(table: Table, intervals: Intervals) -> list[str]:
    """Return the caption of a table in a paper: what it shows, what is bold, n and seeds, and what intervals are of."""
    said = [f"{_said(table, with_bold=False).rstrip('.')}."]
    best = table.best or table.meaning.best
    if best and not table.caption and any(number.best for number in _numbers(table)):
        said.append(f"B{_bold(table, best if table.best else f'the {best}')[1:]}.")
    said += [f"The numbers are {table.of}."] if table.of else []
    said += _basis(table, intervals)
    if isinstance(intervals, str) and intervals != "spread" and table.interval:
        said += [_LIMITS[intervals], covered(table.interval)[0]]
    return for_readers(said)


def _basis(table: Table, intervals: Intervals) -> list[str]:
    """Return n and seeds, and what ± is where it stands for a spread."""
    spread = intervals == "spread"
    said = [one for one in table.basis if spread or not intervals or not one.startswith("±")]
    return [*said, *([_BETWEEN] if spread and not any(one.startswith("±") for one in said) else [])]


def covered(interval: str) -> tuple[str, str]:
    """Divide an explanation of intervals behind the sentence that says what they cover."""
    found = re.search(r"\bcover\b.*?[.](?= |$)", interval)
    return (interval[: found.end()], interval[found.end() :].strip()) if found is not None else (interval, "")


def for_readers(said: Sequence[str]) -> list[str]:
    """Return some texts without the sentences that say what to type."""
    split = (re.split(r"(?<=[.?!]) (?=[A-Z])", text) for text in said)
    kept = (" ".join(one for one in sentences if not _COMMANDS.search(one)) for sentences in split)
    return [text for text in kept if text]


def _numbers(table: Table) -> list[Number]:
    return [entry for row in table.rows for entry in row if isinstance(entry, Number)]


def signs_said(table: Table) -> tuple[str, ...]:
    """Return what each sign behind a number of the table says."""
    beside = [entry.ours for row in table.rows for entry in row if isinstance(entry, Beside) and entry.ours is not None]
    used = {sign for number in (*_numbers(table), *beside) for sign in number.signs}
    return tuple(said for sign, said in SIGNS.items() if sign in used)


def _legend(table: Table) -> dict[str, str]:
    """Return what each sign in the entries of a table means."""
    numbers = _numbers(table)
    undefined = any(one.value is None and not one.withheld and not one.lost for one in numbers)
    lost = any(one.lost and not one.withheld for one in numbers)
    withheld = any(one.withheld for one in numbers)
    absent = any(entry is None for row in table.rows for entry in row)
    why = "withheld for a flag, because the suite requires healthy encoders, victims and attacks"
    return {
        **({_ABSENT: f"{_ABSENT}: not done."} if absent else {}),
        **{said[0]: said for said in signs_said(table)},
        **({_UNDEFINED: f"{_UNDEFINED}: {table.meaning.undefined}."} if undefined else {}),
        **({LOST: f"{LOST}: it is computed from outcomes, and the RUN keeps none that can be read."} if lost else {}),
        **({_WITHHELD: f"{_WITHHELD}: {why}."} if withheld else {}),
    }


def _footnotes(
    table: Table, intervals: Intervals, notes: Notes, *, basis: bool = True, legend: bool = True
) -> list[str]:
    """Return what stands below the table: its notes, and the meaning of each sign that it uses.

    In short it is one paragraph, where a caption may say the `basis`, and LaTeX has a `legend` of its own. A table
    without short notes has the full ones.
    """
    if notes == "none":
        return []
    shown = [*_legend(table).values()] if legend else []
    if intervals and intervals != "spread" and table.interval:
        shown += [_LIMITS["pm"], table.interval] if intervals == "pm" else [table.interval]
    if notes == "short" and (table.basis or table.brief):
        said = [*(_basis(table, intervals) if basis else ()), *table.brief, *shown]
        return [" ".join(said)] if said else []
    return [*table.notes, *([_BETWEEN] if intervals == "spread" else []), *shown]


def _aligned(table: Table) -> list[Side]:
    """Return how each column is set: names and words flush left, numbers flush right, marked texts as texts.

    The columns before the first that holds computed numbers are names, even if a name is a number.
    """
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    names = _names(table)
    return ["left" if i < names else _side(column) for i, column in enumerate(columns)]


def _names(table: Table) -> int:
    """Count the columns before the first that holds computed numbers."""
    computed = [any(not isinstance(entry, str) for entry in column) for column in zip(*table.rows, strict=True)]
    return computed.index(True) if any(computed) else 0


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


def _markdown(table: Table, intervals: Intervals, notes: Notes) -> str:
    sides = ["right" if side == "right" else "left" for side in _aligned(table)]
    above = table.above or ("",) * len(table.header)
    header = [markdown_escape(f"{top} {name}".strip()) for top, name in zip(above, table.header, strict=True)]
    rows = _grid(table, intervals, markdown_escape, lambda text: f"**{text}**")
    body = tabulate(rows, headers=header, tablefmt="pipe", disable_numparse=True, colalign=sides)
    text = f"**{markdown_escape(caption(table))}**\n\n{body}"
    short = notes == "short" and bool(table.basis or table.brief)
    below = [markdown_escape(note) for note in _footnotes(table, intervals, notes)]
    if short:
        below = [f"{below[0]} All notes: --notes full."]
    bullet = "" if short else "- "
    return "\n\n".join([text, *(["\n".join(f"{bullet}{note}" for note in below)] if below else [])])


def _latex(table: Table, intervals: Intervals, notes: Notes, look: Look | None) -> str:
    from rbench.tables import latex

    sides = _aligned(table)
    grid = Grid(
        header=table.header,
        rows=[[_cell(entry, intervals) for entry in row] for row in table.rows],
        groups=sorted(table.groups),
        sides=sides,
        names=_names(table),
        grouped=table.layout == "paper" or bool(table.groups),
        above=table.above,
    )
    rest = covered(table.interval)[1]
    below = replace(table, interval=rest)
    said = _footnotes(below, bool(intervals) and intervals != "spread", notes, basis=False, legend=False)
    legend = {} if notes == "none" else _legend(table)
    place: Place = "small" if intervals == "subscript" else "behind"
    body = latex.Body(_sentences(table, intervals), grid, for_readers(said), legend, place)
    return latex.layout(body, look or latex.Look())


def _cell(entry: Entry, intervals: Intervals) -> Cell:
    """Return an entry as LaTeX sets it. What stands behind a number has a column of its own."""
    if isinstance(entry, Marked):
        return Cell(entry.text, pieces=entry.pieces, colour=entry.colour)
    if isinstance(entry, Number):
        if entry.withheld or entry.lost or entry.value is None:
            return Cell(number(entry), bold=entry.best)
        rounded = replace(entry, digits=entry.digits - 1)
        fewer = (rounded.shown(entry.value), sure(rounded, intervals)) if entry.coarse else None
        shown, more = entry.shown(entry.value), sure(entry, intervals)
        return Cell(shown, more, rounded=fewer, sign=entry.signs, bold=entry.best)
    if isinstance(entry, Beside):
        return Cell(beside(entry, intervals))
    return Cell(_ABSENT if entry is None else str(entry))


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
    content = {"metric": table.metric, "cells": _finite(table.cells), "flags": list(table.flags), "notes": notes}
    return harmless(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """Return what a cell holds with None for numbers that JSON has not: NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
