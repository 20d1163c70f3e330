"""Computes over the entries of a table: averages of rows, and the best entries of each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rbench.schema import Meaning
from rbench.tables.table import Draws, Number

MARK = " ‡"
"""Stands behind the head of a column whose numbers compare with no printed one."""


def average(entries: Sequence[Number | None], meaning: Meaning, *, intervals: bool = False) -> Number | None:
    """Return the unweighted mean of a row's entries.

    The mean has no value where an entry has none, is withheld where one is, and is None where an entry is missing.

    Args:
        intervals: whether it has one, for entries that are independent. It is joined from theirs, the squares of the
            distances to the limits added up (Zou and Donner 2008).
    """
    there = [entry for entry in entries if entry is not None]
    if flags := {flag: None for entry in there for flag in entry.withheld}:
        return Number(None, meaning.percent, digits=meaning.digits, withheld=tuple(flags))
    values = [entry.value for entry in there if entry.value is not None]
    if not there or len(there) < len(entries):
        return None
    mean = math.fsum(values) / len(values) if len(values) == len(entries) else None
    low, high = _joined(mean, there) if intervals and mean is not None else (None, None)
    partial, flagged = (any(getattr(entry, name) for entry in there) for name in ("partial", "flagged"))
    found = Number(mean, meaning.percent, low=low, high=high, digits=meaning.digits, draws=_draws(there))
    return replace(found, partial=partial, flagged=flagged)


def _joined(mean: float, entries: Sequence[Number]) -> tuple[float | None, float | None]:
    """Return the limits of a mean of independent entries; None where one of them has no interval."""
    below = [one.value - one.low for one in entries if one.value is not None and one.low is not None]
    above = [one.high - one.value for one in entries if one.value is not None and one.high is not None]
    if len(below) < len(entries) or len(above) < len(entries):
        return None, None
    return mean - math.hypot(*below) / len(entries), mean + math.hypot(*above) / len(entries)


def _draws(entries: Sequence[Number]) -> Draws | None:
    """Return the mean of the entries for each training seed that all of them have; None without `train_seeds`."""
    rows = [dict(entry.draws.means) for entry in entries if entry.draws is not None]
    if len(rows) < len(entries):
        return None
    shared = [seed for seed in rows[0] if all(seed in row for row in rows)]
    return Draws(tuple((seed, math.fsum(row[seed] for row in rows) / len(rows)) for seed in shared))


def mark_best(rows: Sequence[Sequence[Number | None]], kinds: Sequence[Meaning]) -> list[list[Number | None]]:
    """Mark the best entries of each column, as `best_of` does."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    for column, meaning in zip(columns, kinds, strict=False):
        column[:] = best_of(column, meaning.best)
    return [list(row) for row in zip(*columns, strict=True)]


def best_of(column: Sequence[Number | None], best: Literal["lowest", "highest"] | None) -> list[Number | None]:
    """Mark the best of some entries.

    There is none where `best` is None, where a value is missing, or where all entries are alike. Entries are compared
    as they are shown: every entry that prints like the best one is marked too. Withheld and flagged ones are neither
    compared nor marked: the best is that of the others.
    """
    compared = [n for n in column if n is None or not (n.withheld or n.flagged)]
    values = [(n.value, n.shown(n.value)) for n in compared if n is not None and n.value is not None]
    if best is None or len(values) < len(compared) or len({shown for _, shown in values}) < 2:
        return list(column)
    _, found = min(values) if best == "lowest" else max(values)
    return [n and replace(n, best=not n.flagged and n.value is not None and n.shown(n.value) == found) for n in column]
