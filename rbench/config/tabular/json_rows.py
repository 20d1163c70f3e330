"""Reads JSON Lines, and JSON files that hold one list of objects."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rbench.config.tabular.table import Line, Table, text_of
from rbench.errors import ResourceError


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line that is not blank, without white space around it.

    Raises:
        ResourceError: a line is not UTF-8 (names `file:line`), or the file cannot be unpacked.
    """
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield from _decoded(file, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ResourceError(f"{path}: cannot be unpacked ({error}); write it again with gzip") from error


def _decoded(file: IO[bytes] | gzip.GzipFile, path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise ResourceError(f"{path}:{number}: not UTF-8 ({error.reason} at byte {error.start})") from error
        if text:
            yield number, text


def object_of(text: str, place: str) -> dict[str, Any]:
    """Parse a line of JSON Lines. Raises ResourceError, with `place` at its head, where it is not a JSON object."""
    value = _parsed(text, place)
    if not isinstance(value, dict):
        raise ResourceError(f'{place}: expected a JSON object, like {{"text": ..., "label": ...}}')
    return value


def read_lines(path: Path) -> Table:
    """Read JSON Lines. The columns are the keys of all rows, in order of appearance.

    Raises:
        ResourceError: a line is not UTF-8 or not a JSON object; names `file:line`.
    """
    return _table(path, [Line(f"{path}:{n}", object_of(text, f"{path}:{n}")) for n, text in lines_of(path)])


def read(path: Path) -> Table:
    """Read a file whose JSON is a list of objects. A file of JSON Lines is read as such.

    Raises:
        ResourceError: the file is neither.
    """
    text = text_of(path).strip()
    if text.startswith("{"):
        try:
            table = read_lines(path)
        except ResourceError as error:
            raise ResourceError(f"{error}. {_expected(path)}") from error
        if len(table.rows) == 1 and all(isinstance(value, dict | list) for value in table.rows[0].values.values()):
            raise ResourceError(_expected(path))  # columns, as pandas writes them by default
        return table
    value = _parsed(text, str(path))
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ResourceError(_expected(path))
    return _table(path, [Line(f"{path}:row {i}", row) for i, row in enumerate(value, 1)])


def _expected(path: Path) -> str:
    return (
        f'{path}: expected a list of objects, like [{{"text": ..., "label": ...}}, ...], or one object a line. '
        'pandas writes the former with df.to_json(path, orient="records")'
    )


def _table(path: Path, rows: list[Line]) -> Table:
    columns = dict.fromkeys(key for row in rows for key in row.values)
    return Table(path, tuple(columns), rows)


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ResourceError(f"{place}: not JSON ({error})") from error
    except ValueError as error:  # Python refuses integers of more than a few thousand digits
        raise ResourceError(f"{place}: not JSON (a number has too many digits: {error})") from error
