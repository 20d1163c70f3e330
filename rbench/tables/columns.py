"""What is computed over the entries of a table: averages of rows, and the best of each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rbench.spec import Metric
from rbench.tables.table import MEANING, Number


def average(entries: Sequence[Number | None], metric: Metric) -> list[Number | None]:
    """The unweighted mean of a row's entries, where all of them have a value; no column for a single entry."""
    if len(entries) == 1:
        return []
    there = [entry for entry in entries if entry is not None]
    values = [entry.value for entry in there if entry.value is not None]
    if len(there) < len(entries):
        return [None]
    mean = math.fsum(values) / len(values) if len(values) == len(entries) else None
    meaning = MEANING[metric]
    partial = any(entry.partial for entry in there)
    return [Number(mean, meaning.percent, partial=partial, digits=meaning.digits)]


def mark_best(rows: Sequence[Sequence[Number | None]], kinds: Sequence[Metric]) -> list[list[Number | None]]:
    """Mark the best entries of each column; nothing in a column with a gap, or where there is no choice.

    An entry that reads like the best is as good: a digit that is not shown singles none out.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    for column, metric in zip(columns, kinds, strict=False):
        values = [(n.value, n.shown(n.value)) for n in column if n is not None and n.value is not None]
        if len(values) < len(column) or len({shown for _, shown in values}) < 2:
            continue
        _, best = min(values) if MEANING[metric].best == "lowest" else max(values)
        column[:] = [replace(n, best=shown == best) for n, (_, shown) in zip(column, values, strict=True) if n]
    return [list(row) for row in zip(*columns, strict=True)]
