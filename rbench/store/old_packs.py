"""Unpack RUNs that rbench packed until November 2026, so that `rbench pack OLD.zip --out NEW.zip` can convert them.

    OLD.zip
        checksums.json                       the size and sha256 of each file of the RUN, in the order of the plan
        plan.json                            as it is, and so is judged.json
        records.jsonl                        the record.json of each job, a line each; the plan's jobs as their keys
        <folder of a job>/outcomes.json      the columns of outcomes.jsonl; so of predictions and rows
        shared.json                          values of columns that several files have, each once

The values that one field has in all lines of a file are stored together, in one of five ways:

    {"same": V}                          all lines have the value V
    {"fields": {NAME: COLUMN, ...}}      values are objects with the same names in one order: a column for each name
    {"lengths": COLUMN, "items": COLUMN} values are lists of objects or null: their lengths, and a column of all objects
    {"values": [V, ...]}                 anything else
    {"shared": I}                        the same, where another file has the same values: their place in shared.json

A file of columns is one object of `n`, the number of lines, `style`, how lines were written, and `lines`, their column.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from rbench.errors import StoreError
from rbench.schema import Strict
from rbench.store.runs.files import first_error, hash_outcome, parse_json, write
from rbench.store.runs.packed import (
    DERIVED,
    RATIO,
    RECORDS,
    REMEDY,
    UNREADABLE,
    fits_ratio,
    open_zip,
    read_jobs,
    unpack_record,
)
from rbench.system.below import LINE, MAX_FOLDERS, WHOLE_BYTES, SafeFolder

CHECKSUMS, SHARED = "checksums.json", "shared.json"
COLUMNS = {f"{name}.jsonl": f"{name}.json" for name in ("outcomes", "predictions", "rows")}
"""The files of a job that are stored as columns, each with the name of its columns."""


class StatedContent(Strict):
    """What an old file says of one file of the RUN."""

    size: int
    sha256: str


class OldChecksums(Strict):
    """The content of checksums.json."""

    rbench: str
    files: dict[str, StatedContent]
    """By the path in the RUN. Files that are lines of records.jsonl are in the order of these lines."""


def is_old(path: Path) -> bool:
    """Whether a packed RUN is of an earlier version. Raises StoreError where it is none, or must not be opened."""
    with open_zip(path) as archive:
        return CHECKSUMS in archive.NameToInfo


def unpack(path: Path, folder: Path) -> None:
    """Write the files of an old packed RUN below a folder. Raises StoreError where it is damaged or a bomb."""
    target = SafeFolder(folder)
    with open_zip(path) as archive:
        try:
            for name, content in _read_files(archive, path.stat().st_size):
                write(folder / name, content, target)
        except UNREADABLE as error:
            raise StoreError(f"{path} is damaged ({first_error(error)}). {REMEDY}") from error


def _read_files(archive: zipfile.ZipFile, size: int) -> Iterator[tuple[str, bytes]]:
    members = archive.NameToInfo
    stated_files = OldChecksums.model_validate(parse_json(archive.read(CHECKSUMS))).files
    total = sum(file.size for file in stated_files.values())
    if total > max(WHOLE_BYTES, RATIO * size):
        raise ValueError(f"it says that it has {total} bytes, and is packed into {size}")
    jobs = read_jobs(archive.read("plan.json"))
    records = iter(archive.read(RECORDS).split(b"\n") if RECORDS in members else ())
    shared = parse_json(archive.read(SHARED)) if SHARED in members else []
    for name, file in stated_files.items():
        if name.partition("/")[0] in DERIVED:  # of still earlier versions
            continue
        _check_name(name)
        folder, _, file_name = name.rpartition("/")
        columns = f"{folder}/{COLUMNS.get(file_name)}"
        if columns in members:
            if not fits_ratio(file.size, members[columns].compress_size):
                raise ValueError(f"{name} says that it has {file.size} bytes")
            content = b"".join(lines_from_columns(archive.read(columns), shared, file.size))
        else:
            content = archive.read(name) if name in members else unpack_record(next(records, b""), jobs)
        if sha256(content).hexdigest() != file.sha256:
            raise ValueError(f"{name} is not what was packed")
        yield name, content


def _check_name(name: str) -> None:
    """Raise ValueError for a name that would lead out of a folder, on any system."""
    parts = name.split("/")
    if len(parts) > MAX_FOLDERS or any(part in ("", ".", "..") for part in parts) or set(name) & set("\\:\0"):
        raise ValueError(f"it holds the name {name[:100]!r}")


_LINE_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "compact": to_json,  # outcomes, as pydantic writes them
    "spaced": lambda line: json.dumps(line).encode(),  # predictions and rows
}
_CHECK_FIELD = "check"


def lines_from_columns(columns: bytes, shared: Sequence[Sequence[Any]] = (), most: int = LINE) -> Iterator[bytes]:
    """Yield the lines of a file, each with its newline.

    Raises ValueError for what `to_columns` did not write, and before a line is made with which all of them would have
    more than `most` bytes by what they repeat.

    Args:
        columns: JSON of the columns.
        shared: the values that they have in common with other files.
        most: bytes of the file.
    """
    try:
        content = parse_json(columns)
        num_lines, write_line, column = content["n"], _LINE_WRITERS[content["style"]], content["lines"]
        # A column that is always the same takes no bytes a line, so a few bytes could claim any number of lines.
        # Each line, and each object in a list, has at least a byte of its own, or a shared value.
        available = len(columns) + sum(map(len, shared))
        if not 0 <= num_lines <= available:
            raise ValueError(f"{num_lines} lines do not fit into {available} bytes")
        values = _column_values(column, available, most, shared)
        for _ in range(num_lines):
            line, repeated = next(values)
            most -= repeated
            if most < 0:
                raise ValueError("it repeats more bytes than it has")
            if _CHECK_FIELD in line and line[_CHECK_FIELD] is None:
                line[_CHECK_FIELD] = _checksum_of(line)
            yield write_line(line) + b"\n"
    except (LookupError, TypeError, AttributeError, RecursionError, StopIteration) as error:
        raise ValueError(f"no columns: {type(error).__name__} {error}") from error


def _checksum_of(line: dict[str, Any]) -> str | None:
    return hash_outcome(line["job"], line["outcome"]) if line.keys() == {"job", _CHECK_FIELD, "outcome"} else None


def _column_values(
    column: dict[str, Any], most: int, room: int, shared: Sequence[Sequence[Any]]
) -> Iterator[tuple[Any, int]]:
    """Yield the values of a column, each with the bytes of its JSON that have no bytes of their own in the columns.

    A column that is always the same has no end. Lists have at most `most` objects in all, and a list is not made where
    its objects repeat more than `room` bytes.
    """
    if "same" in column:
        yield from repeat((column["same"], len(to_json(column["same"]))))
    elif "shared" in column:
        yield from ((value, len(to_json(value))) for value in shared[column["shared"]])
    elif "fields" in column:
        names = list(column["fields"])
        names_size = sum(len(name) for name in names)
        for row in zip(*(_column_values(column["fields"][name], most, room, shared) for name in names), strict=False):
            yield dict(zip(names, (value for value, _ in row), strict=True)), names_size + sum(size for _, size in row)
    elif "lengths" in column:
        items = _column_values(column["items"], most, room, shared)
        for length, _ in _column_values(column["lengths"], most, room, shared):
            most -= length or 0
            if most < 0 or (length is not None and length < 0):
                raise ValueError("lists have more objects than there is room for")
            objects, repeated = [], 0
            for value, size in islice(items, length or 0):
                objects.append(value)
                repeated += size
                if repeated > room:
                    raise ValueError("a list repeats more bytes than the file has")
            yield None if length is None else objects, repeated
    else:
        yield from ((value, 0) for value in column["values"])
