"""Renders tables as text. Only this module rounds numbers and escapes texts.

markdown, latex   for people: percentages with one decimal, `51.2 [45.0, 57.3]` with intervals, notes below
csv, json         for programs: one entry per cell, full precision, shares as fractions of 1, always with intervals
"""

from __future__ import annotations

import csv
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
from rbench.system.console import csv_cell as escaped
from rbench.system.console import harmless
from rbench.tables.shapes import IntervalPlace, PaperCell, PaperGrid
from rbench.tables.table import (
    FLAGGED,
    PARTIAL,
    ColumnSide,
    MarkedText,
    Number,
    PrintedEntry,
    Table,
    TableEntry,
    TrainingMeans,
)

if TYPE_CHECKING:
    from rbench.tables.latex import LatexStyle

Format = Literal["markdown", "latex", "csv", "json"]
MOST_NAMED = 8
"""The most jobs or encoders that a note names. It counts the others."""
_ABSENT, _UNDEFINED, _WITHHELD, _CITED = "–", "n/a", "—", "‡"
SIGN_MEANINGS = {
    FLAGGED: f"{FLAGGED}: flagged, or an average with a flagged part.",
    PARTIAL: f"{PARTIAL}: some seeds are missing, or some of what it is picked from.",
}
"""What the signs behind numbers say, for notes."""
NO_OUTCOMES = "no outcomes"
"""Stands where a number is computed from outcomes, and the RUN keeps none."""


Intervals = bool | IntervalStyle
"""Whether a table shows intervals, or how; True: as is usual for its format."""


def render(
    table: Table, fmt: str, intervals: Intervals = False, notes: Notes = "full", look: LatexStyle | None = None
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
    raise StoreError(f"unknown format {fmt!r}; there are {', '.join(get_args(Format))}")


def format_number(entry: Number, intervals: Intervals = False) -> str:
    """Format an entry: `51.2`, flagged `51.2†`, with intervals `51.2 [45.0, 57.3]` or `51.2 ± 6.2`, `n/a` where it has
    no value, or a dash and the flags for which it is withheld.

    With `train_seeds` and without intervals, spreads stand there: between training seeds, then between fine-tuning
    seeds where there are several: `51.2 ± 2.0/1.3`.
    """
    if entry.withheld:
        return format_withheld(entry.withheld)
    if entry.lost:
        return NO_OUTCOMES
    if entry.value is None:
        return _UNDEFINED
    uncertainty = format_uncertainty(entry, intervals)
    return entry.shown(entry.value) + entry.signs + (f" {uncertainty}" if uncertainty else "")


def format_uncertainty(entry: Number, intervals: Intervals) -> str:
    """Format what stands behind a number that has a value: its interval or its spread, and never both."""
    if intervals not in (False, "spread"):
        if entry.value is None or entry.low is None or entry.high is None:
            return ""
        if intervals == "pm":
            return f"± {entry.shown(max(entry.high - entry.value, entry.value - entry.low))}"
        return f"[{entry.shown(entry.low)}, {entry.shown(entry.high)}]"
    if entry.draws is not None:
        return _format_spreads(entry, entry.draws)
    return f"± {entry.shown(entry.seed_sd)}" if intervals and entry.seed_sd is not None else ""


def format_printed(entry: PrintedEntry, intervals: Intervals = False) -> str:
    """Format a printed number with ours: `84.2 (76.5*, +7.7)`, a star where it lies in our interval. Without ours it is
    alone: `76.5`, with a `‡` where the paper cites it."""
    printed = (entry.printed or _UNDEFINED) + ("*" if entry.inside else "") + (_CITED if entry.cited else "")
    if entry.ours is None or entry.ours.value is None:
        return printed
    difference = f", {entry.ours.value - float(entry.printed):+.{entry.ours.digits}f}" if entry.printed else ""
    return f"{format_number(entry.ours, intervals)} ({printed}{difference})"


def format_entry(entry: TableEntry) -> str:
    """Return an entry as text, without its interval."""
    if isinstance(entry, PrintedEntry):
        return format_printed(entry)
    if isinstance(entry, Number):
        return format_number(entry)
    return "" if entry is None else str(entry)


def format_withheld(flags: Sequence[str]) -> str:
    """Format an entry that a suite withholds: `— near chance`."""
    return f"{_WITHHELD} {', '.join(flags)}"


def list_names(names: Sequence[str]) -> str:
    """List the first names, and count the others."""
    uncounted = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {uncounted} more" if uncounted > 0 else "")


def format_brief(value: float) -> str:
    """Format a number of any size in three significant digits, for a note."""
    return f"{value:.3g}"


def _format_spreads(entry: Number, draws: TrainingMeans) -> str:
    """Format the standard deviations between training seeds and fine-tuning seeds. A missing one is a dash."""
    spreads = [draws.sd, entry.seed_sd] if draws.tuned else [draws.sd]
    if all(sd is None for sd in spreads):
        return ""
    return "± " + "/".join(_ABSENT if sd is None else entry.shown(sd) for sd in spreads)


def _text_rows(
    table: Table, intervals: Intervals, escape: Callable[[str], str], bold: Callable[[str], str]
) -> list[list[str]]:
    """Return all entries as text. In the layout paper, a first column that repeats the row above is left empty."""

    def text(entry: TableEntry) -> str:
        if entry is None:
            return escape(_ABSENT)
        if isinstance(entry, Number):
            shown = escape(format_number(entry, intervals))
            return bold(shown) if entry.best else shown
        if isinstance(entry, PrintedEntry):
            return escape(format_printed(entry, intervals))
        if isinstance(entry, MarkedText):
            return "".join(bold(escape(piece)) if marked else escape(piece) for piece, marked in entry.pieces)
        return escape(str(entry))

    rows = [[text(entry) for entry in row] for row in table.rows]
    if table.layout == "paper":
        starts = {0, *table.groups}
        names = [row[0] for row in rows]
        rows = [["", *row[1:]] if i not in starts and row[0] == names[i - 1] else row for i, row in enumerate(rows)]
    return rows


def write_caption(table: Table) -> str:
    """Return what stands above a table: its metric, what that is, and what is bold."""
    return _caption_text(table) + (f"; {table.of}" if table.of else "")


def _caption_text(table: Table, *, with_bold: bool = True) -> str:
    meaning = table.meaning
    if table.caption:
        return table.caption
    if table.layout == "full" and table.about is None:
        return "Every metric of every attack job; shares in %"
    bold = with_bold and any(number.best for number in _list_numbers(table))
    if table.about is not None:
        unit = f", {meaning.unit}" if meaning.percent else ""
        arrow = f" {meaning.arrow}" if meaning.best else ""
        bold_part = f"; {_bold_phrase(table, f'the {meaning.best}')}" if bold and meaning.best else ""
        return f"{meaning.title}{unit}{arrow}: {meaning.definition}{bold_part}"
    if table.layout == "by-task":
        bold_part = f" ({_bold_phrase(table, table.best)})" if bold else ""
        return f"Clean accuracy, attack success rate (ASR) and words perturbed, by task, %{bold_part}"
    if table.best:
        return f"{meaning.title}: {meaning.definition}" + (f"; {_bold_phrase(table, table.best)}" if bold else "")
    unit = f", {meaning.unit}" if meaning.percent else ""
    if meaning.best is None:
        return f"{meaning.title}{unit}: {meaning.definition}"
    better = "lower" if meaning.best == "lowest" else "higher"
    bold_part = f"; {_bold_phrase(table, f'the {meaning.best}')}" if bold else ""
    return f"{meaning.title}{unit} {meaning.arrow} ({better} is {meaning.good}{bold_part})"


def _bold_phrase(table: Table, best: str) -> str:
    """Say what is bold in this very table."""
    among = "of each task and column" if table.layout == "by-task" else table.meaning.among
    return f"bold: {best} {among}{table.bold}"


_INTERVAL_STYLES: dict[IntervalStyle, str] = {
    "brackets": "Brackets hold intervals.",
    "subscript": "Brackets hold intervals.",
    "pm": "± is the larger distance of a number from a limit of its interval.",
}
_SPREAD_NOTE = "± is the standard deviation between seeds."
_COMMAND_SIGNS = re.compile(r"(?<!\w)--?[a-z]|\brbench\b|`")
"""What a sentence has that is for people at a command line, and not for readers of a paper."""


def _paper_caption(table: Table, intervals: Intervals) -> list[str]:
    """Return the caption of a table in a paper: what it shows, what is bold, n and seeds, and what intervals are of."""
    sentences = [f"{_caption_text(table, with_bold=False).rstrip('.')}."]
    best = table.best or table.meaning.best
    if best and not table.caption and any(number.best for number in _list_numbers(table)):
        sentences.append(f"B{_bold_phrase(table, best if table.best else f'the {best}')[1:]}.")
    sentences += [f"The numbers are {table.of}."] if table.of else []
    sentences += _basis_sentences(table, intervals)
    if isinstance(intervals, str) and intervals != "spread" and table.interval:
        sentences += [_INTERVAL_STYLES[intervals], split_interval_note(table.interval)[0]]
    return without_commands(sentences)


def _basis_sentences(table: Table, intervals: Intervals) -> list[str]:
    """Return n and seeds, and what ± is where it stands for a spread."""
    shows_spread = intervals == "spread"
    # With intervals there are no spreads in the table, so what ± means there is not said.
    with_spreads = shows_spread or not intervals
    sentences = [sentence for sentence in table.basis if with_spreads or not sentence.startswith("±")]
    explained = any(sentence.startswith("±") for sentence in sentences)
    return [*sentences, _SPREAD_NOTE] if shows_spread and not explained else sentences


def split_interval_note(interval: str) -> tuple[str, str]:
    """Divide an explanation of intervals behind the sentence that says what they cover."""
    cover_sentence = re.search(r"\bcover\b.*?[.](?= |$)", interval)
    return (
        (interval[: cover_sentence.end()], interval[cover_sentence.end() :].strip())
        if cover_sentence is not None
        else (interval, "")
    )


def without_commands(texts: Sequence[str]) -> list[str]:
    """Return some texts without the sentences that say what to type."""
    sentences_of_texts = (re.split(r"(?<=[.?!]) (?=[A-Z])", text) for text in texts)
    without = (
        " ".join(sentence for sentence in sentences if not _COMMAND_SIGNS.search(sentence))
        for sentences in sentences_of_texts
    )
    return [text for text in without if text]


def _list_numbers(table: Table) -> list[Number]:
    return [entry for row in table.rows for entry in row if isinstance(entry, Number)]


def list_sign_meanings(table: Table) -> tuple[str, ...]:
    """Return what each sign behind a number of the table says."""
    ours = [
        entry.ours for row in table.rows for entry in row if isinstance(entry, PrintedEntry) and entry.ours is not None
    ]
    used = {sign for number in (*_list_numbers(table), *ours) for sign in number.signs}
    return tuple(meaning for sign, meaning in SIGN_MEANINGS.items() if sign in used)


def _sign_legend(table: Table) -> dict[str, str]:
    """Return what each sign in the entries of a table means."""
    numbers = _list_numbers(table)
    has_undefined = any(
        table_number.value is None and not table_number.withheld and not table_number.lost for table_number in numbers
    )
    has_lost = any(table_number.lost and not table_number.withheld for table_number in numbers)
    has_withheld = any(table_number.withheld for table_number in numbers)
    has_absent = any(entry is None for row in table.rows for entry in row)
    withheld_reason = "withheld for a flag, because the suite requires healthy encoders, victims and attacks"
    return {
        **({_ABSENT: f"{_ABSENT}: not done."} if has_absent else {}),
        **{sign_meaning[0]: sign_meaning for sign_meaning in list_sign_meanings(table)},
        **({_UNDEFINED: f"{_UNDEFINED}: {table.meaning.undefined}."} if has_undefined else {}),
        **(
            {NO_OUTCOMES: f"{NO_OUTCOMES}: it is computed from outcomes, and the RUN keeps none that can be read."}
            if has_lost
            else {}
        ),
        **({_WITHHELD: f"{_WITHHELD}: {withheld_reason}."} if has_withheld else {}),
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
    legend_and_interval = [*_sign_legend(table).values()] if legend else []
    if intervals and intervals != "spread" and table.interval:
        legend_and_interval += [_INTERVAL_STYLES["pm"], table.interval] if intervals == "pm" else [table.interval]
    if notes == "short" and (table.basis or table.brief):
        sentences = [*(_basis_sentences(table, intervals) if basis else ()), *table.brief, *legend_and_interval]
        return [" ".join(sentences)] if sentences else []
    return [*table.notes, *([_SPREAD_NOTE] if intervals == "spread" else []), *legend_and_interval]


def _column_sides(table: Table) -> list[ColumnSide]:
    """Return how each column is set: names and words flush left, numbers flush right, marked texts as texts.

    The columns before the first that holds computed numbers are names, even if a name is a number.
    """
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    names = _count_name_columns(table)
    return ["left" if i < names else _side_of(column) for i, column in enumerate(columns)]


def _count_name_columns(table: Table) -> int:
    """Count the columns before the first that holds computed numbers."""
    computed = [any(not isinstance(entry, str) for entry in column) for column in zip(*table.rows, strict=True)]
    return computed.index(True) if any(computed) else 0


def _side_of(column: Sequence[TableEntry]) -> ColumnSide:
    """Return how a column is set. Numbers, ranges (`-3.1 to 2.0`) and empty cells align right."""
    if any(isinstance(entry, MarkedText) for entry in column):
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
    sides = ["right" if side == "right" else "left" for side in _column_sides(table)]
    above = table.above or ("",) * len(table.header)
    header = [markdown_escape(f"{top} {name}".strip()) for top, name in zip(above, table.header, strict=True)]
    rows = _text_rows(table, intervals, markdown_escape, lambda text: f"**{text}**")
    body = tabulate(rows, headers=header, tablefmt="pipe", disable_numparse=True, colalign=sides)
    text = f"**{markdown_escape(write_caption(table))}**\n\n{body}"
    is_short = notes == "short" and bool(table.basis or table.brief)
    footnotes = [markdown_escape(note) for note in _footnotes(table, intervals, notes)]
    if is_short:
        footnotes = [f"{footnotes[0]} All notes: --notes full."]
    bullet = "" if is_short else "- "
    return "\n\n".join([text, *(["\n".join(f"{bullet}{note}" for note in footnotes)] if footnotes else [])])


def _latex(table: Table, intervals: Intervals, notes: Notes, look: LatexStyle | None) -> str:
    from rbench.tables import latex

    sides = _column_sides(table)
    grid = PaperGrid(
        header=table.header,
        rows=[[_paper_cell(entry, intervals) for entry in row] for row in table.rows],
        groups=sorted(table.groups),
        sides=sides,
        names=_count_name_columns(table),
        grouped=table.layout == "paper" or bool(table.groups),
        above=table.above,
    )
    # The caption of a paper's table says what intervals cover; what else is said of them goes into its notes.
    interval_rest = split_interval_note(table.interval)[1]
    shortened = replace(table, interval=interval_rest)
    footnotes = _footnotes(shortened, bool(intervals) and intervals != "spread", notes, basis=False, legend=False)
    legend = {} if notes == "none" else _sign_legend(table)
    place: IntervalPlace = "small" if intervals == "subscript" else "behind"
    body = latex.LatexBody(_paper_caption(table, intervals), grid, without_commands(footnotes), legend, place)
    return latex.write_environments(body, look or latex.LatexStyle())


def _paper_cell(entry: TableEntry, intervals: Intervals) -> PaperCell:
    """Return an entry as LaTeX sets it. What stands behind a number has a column of its own."""
    if isinstance(entry, MarkedText):
        return PaperCell(entry.text, pieces=entry.pieces, colour=entry.colour)
    if isinstance(entry, Number):
        if entry.withheld or entry.lost or entry.value is None:
            return PaperCell(format_number(entry), bold=entry.best)
        rounded = replace(entry, digits=entry.digits - 1)
        with_digit_less = (
            (rounded.shown(entry.value), format_uncertainty(rounded, intervals)) if entry.is_coarse else None
        )
        shown, uncertainty = entry.shown(entry.value), format_uncertainty(entry, intervals)
        return PaperCell(shown, uncertainty, rounded=with_digit_less, sign=entry.signs, bold=entry.best)
    if isinstance(entry, PrintedEntry):
        return PaperCell(format_printed(entry, intervals))
    return PaperCell(_ABSENT if entry is None else str(entry))


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
    # Terminals and spreadsheets act on some signs at the start of a cell, so every text is made harmless.
    writer.writerow([escaped(name) for name in names])
    writer.writerows([escaped(row.get(name)) for name in names] for row in rows)
    return harmless(file.getvalue().rstrip("\n"))


def _json(table: Table) -> str:
    meaning = table.meaning
    unit = [meaning.stored] if table.layout == "full" or meaning.percent else []
    notes = [*table.notes, table.interval, *unit]
    # `allow_nan=False` guards `_without_nan`: NaN is no JSON, and other languages refuse it.
    content = {"metric": table.metric, "cells": _without_nan(table.cells), "flags": list(table.flags), "notes": notes}
    return harmless(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def _without_nan(value: Any) -> Any:
    """Return what a cell holds with None for numbers that JSON has not: NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _without_nan(item) for name, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value
