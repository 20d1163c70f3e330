"""Say in a sentence what a small table shows: which of two entries is better where, and where nothing tells them apart.

It is made of the bold of a table, so of its verdicts (`rbench.verdicts.bold`), and says nothing that these do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rbench.tables.table import Contest, Number, Table

MOST = 9
"""A table with more rows has no sentence: it would be one that nobody reads."""


class _Told(NamedTuple):
    """Two entries of a contest, the better one first; of an undecided one in the order of the table."""

    where: str
    names: tuple[str, str]
    values: tuple[str, str]
    decided: bool


def reading(table: Table) -> str | None:
    """Return the sentence of a table with its bold (`bold.marked`) in which two entries are compared in each column.

    None where the table is larger, compares more than two entries, or misses one.
    """
    last: dict[tuple[int, ...], Contest] = {}
    for contest in table.contests:  # the last column of the metric: that of the average, where there is one
        if contest.metric == table.metric:
            last[tuple(row for row, _ in contest.entries)] = contest
    if not last or len(table.rows) > MOST:
        return None
    found = [_told(table, contest.column, rows) for rows, contest in last.items() if len(rows) == 2]
    told = [one for one in found if one is not None]
    if len(told) < len(last):
        return None
    good = table.meaning.good
    said = [
        f"{names[0]} is {good} than {names[1]} {_places([one for one in told if one.decided and one.names == names])}"
        for names in dict.fromkeys(one.names for one in told if one.decided)
    ]
    open_ = [one for one in told if not one.decided]
    if open_ and not said:
        return f"Nothing tells {open_[0].names[0]} and {open_[0].names[1]} apart: {_places(open_)}."
    rest = f"; {_places(open_)} nothing tells them apart" if open_ else ""
    return f"{'; '.join(said)}{rest}."


def _told(table: Table, column: int, rows: Sequence[int]) -> _Told | None:
    entries = [table.rows[row][column] for row in rows]
    one, other = entries
    if not (isinstance(one, Number) and isinstance(other, Number)) or one.value is None or other.value is None:
        return None
    texts = [[entry for entry in table.rows[row] if isinstance(entry, str)] for row in rows]
    where, *_ = texts[0]
    differ = [i for i, (a, b) in enumerate(zip(*texts, strict=True)) if i and a != b]
    named = [" ".join(own[i] for i in differ) for own in texts]
    plain = [re.sub(r" ?\[[^]]*\]", "", name) for name in named]
    if len(set(plain)) == len(named):  # options, as in `clean[epochs=4]`, only where names alone are the same
        named = plain
    shown = [number.shown(number.value) for number in (one, other) if number.value is not None]
    order = (0, 1) if one.best or not other.best else (1, 0)
    first, second = order
    decided = one.best != other.best
    return _Told(where, (named[first], named[second]), (shown[first], shown[second]), decided)


def _places(told: Sequence[_Told]) -> str:
    """Write where, with both values: `under TextFooler (28.0 against 95.1) and PWWS (...)`."""
    parts = [f"{one.where} ({one.values[0]} against {one.values[1]})" for one in told]
    joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"under {joined}"
