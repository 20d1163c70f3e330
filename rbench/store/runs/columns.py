"""Turn a file of JSON lines into columns and back, byte for byte. Columns take a fraction of the space when compressed.

The values that one field has in all lines are stored together, in one of four ways:

    {"same": V}                          all lines have the value V
    {"fields": {NAME: COLUMN, ...}}      values are objects with the same names in one order: a column for each name
    {"lengths": COLUMN, "items": COLUMN} values are lists of objects or null: their lengths, and a column of all objects
    {"values": [V, ...]}                 anything else

A file of columns is one object of `n`, the number of lines, `style`, how lines were written, and `lines`, their column.
The checksums of outcomes follow from their content, so they are not stored but computed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

from pydantic_core import from_json, to_json

from rbench.store.runs.files import checksum

_STYLES: dict[str, Callable[[Any], bytes]] = {
    "compact": to_json,  # outcomes, as pydantic writes them
    "spaced": lambda line: json.dumps(line).encode(),  # predictions and rows
}
_CHECK = "check"


def to_columns(content: bytes) -> bytes | None:
    """Return the columns of a file of JSON lines; None where they would not give back the same bytes."""
    lines = content.split(b"\n")
    if len(lines) < 2 or lines.pop():
        return None
    try:
        values = [from_json(line) for line in lines]
    except ValueError:
        return None
    if not all(isinstance(line, dict) for line in values):
        return None
    if all(_CHECK in line and line[_CHECK] == _checked(line) for line in values):
        for line in values:
            line[_CHECK] = None
    for style in _STYLES:
        columns = to_json({"n": len(values), "style": style, "lines": _column(values)})
        try:
            if b"".join(from_columns(columns)) == content:
                return columns
        except ValueError:  # a number that JSON cannot say, or text that is no Unicode
            continue
    return None


def from_columns(columns: bytes) -> Iterator[bytes]:
    """Yield the lines of a file, each with its newline.

    Raises ValueError for what `to_columns` did not write. A line may be long, so the caller stops where all lines
    together become too long.
    """
    try:
        found = from_json(columns)
        n, write, column = found["n"], _STYLES[found["style"]], found["lines"]
        left = len(columns)  # each line, and each object in a list, has at least a byte of its own
        if not 0 <= n <= left:
            raise ValueError(f"{n} lines do not fit into {left} bytes")
        values = _values(column, left)
        for _ in range(n):
            line = next(values)
            if _CHECK in line and line[_CHECK] is None:
                line[_CHECK] = _checked(line)
            yield write(line) + b"\n"
    except (KeyError, TypeError, AttributeError, RecursionError, StopIteration) as error:
        raise ValueError(f"no columns: {type(error).__name__} {error}") from error


def _checked(line: dict[str, Any]) -> str | None:
    return checksum(line["job"], line["outcome"]) if line.keys() == {"job", _CHECK, "outcome"} else None


def _column(values: list[Any]) -> dict[str, Any]:
    if len(values) > 1 and len({to_json(value) for value in values}) == 1:
        return {"same": values[0]}
    if values and all(isinstance(value, dict) for value in values) and len({tuple(value) for value in values}) == 1:
        return {"fields": {name: _column([value[name] for value in values]) for name in values[0]}}
    if all(value is None or isinstance(value, list) for value in values):
        items = [item for value in values for item in value or ()]
        if items and all(isinstance(item, dict) for item in items):
            lengths = [None if value is None else len(value) for value in values]
            return {"lengths": _column(lengths), "items": _column(items)}
    return {"values": values}


def _values(column: dict[str, Any], most: int) -> Iterator[Any]:
    """Yield the values of a column, at most so many objects of lists. A column that is always the same has no end."""
    if "same" in column:
        yield from repeat(column["same"])
    elif "fields" in column:
        names = list(column["fields"])
        for row in zip(*(_values(column["fields"][name], most) for name in names), strict=False):
            yield dict(zip(names, row, strict=True))
    elif "lengths" in column:
        items = _values(column["items"], most)
        for length in _values(column["lengths"], most):
            most -= length or 0
            if most < 0 or (length is not None and length < 0):
                raise ValueError("lists have more objects than there is room for")
            yield None if length is None else list(islice(items, length))
    else:
        yield from column["values"]
