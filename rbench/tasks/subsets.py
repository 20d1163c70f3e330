"""Reads which subset each row of an STS task belongs to, such as MSRpar of STS 2012."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from rbench.errors import ResourceError
from rbench.spec import TaskSpec
from rbench.tasks.clean import Columns, Row, SplitColumns


def subsets_of(spec: TaskSpec, columns: SplitColumns, rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, str]]:
    """Return the subset of each row by its id, for each split whose subsets the task lists.

    A source without a column of subsets, such as the hub's copies, has none: its splits are left out.

    Raises:
        ResourceError: a row names no subset where others do, or one that the task does not list.
    """
    found: dict[str, dict[str, str]] = {}
    for split, known in spec.subsets.items():
        column = (columns if isinstance(columns, Columns) else columns[split]).subset if split in rows else ""
        named = [row for row in rows.get(split, ()) if column in row.values]
        if named:
            found[split] = {row.id: _subset(spec, row, column, known) for row in rows[split]}
    return found


def _subset(spec: TaskSpec, row: Row, column: str, known: Mapping[str, int]) -> str:
    name = row.values.get(column)
    if isinstance(name, str) and name in known:
        return name
    said = "this row names none" if name is None else f"{name!r} is not one of them"
    near = get_close_matches(str(name), known, n=1)
    hint = f" (did you mean `{near[0]}`?)" if near else ""
    raise ResourceError(
        f"{row.where}: `{column}` must be a subset of task `{spec.name}` ({', '.join(known)}); {said}{hint}. "
        "Correct the row, or list the subset under `subsets` of the task's file"
    )
