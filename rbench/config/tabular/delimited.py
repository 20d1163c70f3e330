"""Reads CSV and TSV. The first row has the names of the columns, and every other row has as many fields.

A field in double quotes may hold separators, quotes (doubled) and line ends. In CSV quotes always mean this. TSV is
written with and without it. So it is read with it, and where that fails quotes are characters like others. TSV in which
both ways give whole rows, but not the same ones, is refused.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import NamedTuple

from rbench.config.tabular.table import Line, Table, text_of
from rbench.errors import ResourceError


class _Record(NamedTuple):
    """The fields of a row, and the line (from 1) at which it begins."""

    line: int
    fields: list[str]


def read(path: Path, delimiter: str) -> Table:
    """Read a table whose fields are separated by `delimiter`, a comma or a tab. All values are strings.

    Raises:
        ResourceError: a row has more or fewer fields than the header, a quoted field does not end, or the header is
            missing or names a column twice; names `file:line`.
    """
    csv.field_size_limit(sys.maxsize)  # a text may be longer than Python's limit of 131,072 characters
    text = text_of(path)
    _refuse_other_separators(text, delimiter, path)
    records = _of_tsv(text, path) if delimiter == "\t" else _regular(_records(text, ",", path), path)
    if not records:
        raise ResourceError(f"{path}: the file is empty; its first row must have the names of the columns")
    (line, header), *rest = records
    columns = [name.strip() for name in header]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ResourceError(f"{path}:{line}: the header has the column `{twice}` twice; rename one of them")
    rows = [Line(f"{path}:{line}", dict(zip(columns, fields, strict=True))) for line, fields in rest]
    return Table(path, tuple(columns), rows)


def _of_tsv(text: str, path: Path) -> list[_Record]:
    """Read TSV by the rule at the head of this module."""
    plain = _records(text, "\t", path, quotes=False)
    even = _ragged(plain) is None
    try:
        quoted = _regular(_records(text, "\t", path), path)
    except ResourceError:
        if not even:
            raise
        return plain
    joined = next((one for one in quoted if any(set(field) & {*"\t\r\n"} for field in one.fields)), None)
    if joined is not None and even:
        raise ResourceError(
            f"{path}:{joined.line}: the quotes of this row may enclose a text, or be part of it. Write the table as "
            "CSV or JSON Lines"
        )
    return quoted


def _records(text: str, delimiter: str, path: Path, *, quotes: bool = True) -> list[_Record]:
    """Return all rows but blank lines. Raises ResourceError where a quoted field does not end as it should."""
    file = io.StringIO(text, newline="")
    if quotes:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    found: list[_Record] = []
    line = 1
    try:
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                found.append(_Record(line, fields))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ResourceError(
            f"{path}:{line}: the quotes of the row that begins here do not match ({error}). A field in double quotes "
            "must end with one, and quotes inside it are doubled"
        ) from error
    return found


def _ragged(records: list[_Record]) -> _Record | None:
    """Return the first row that has not as many fields as the header."""
    return next((record for record in records if len(record.fields) != len(records[0].fields)), None)


def _regular(records: list[_Record], path: Path) -> list[_Record]:
    """Return the rows. Raises ResourceError where one has not as many fields as the header."""
    wrong = _ragged(records)
    if wrong is not None:
        raise ResourceError(
            f"{path}:{wrong.line}: this row has {len(wrong.fields)} fields and the header has "
            f"{len(records[0].fields)} ({', '.join(records[0].fields)}). Put a text that holds the separator or a "
            "line end into double quotes"
        )
    return records


def _refuse_other_separators(text: str, delimiter: str, path: Path) -> None:
    """Raise ResourceError for a header of one column that other separators would divide.

    This comes before all else: with the wrong separator, whatever a row is told to mend is no remedy.
    """
    lines = enumerate(io.StringIO(text, newline=None), 1)
    number, header = next(((i, line) for i, line in lines if line.strip()), (1, ""))
    columns = next(csv.reader([header], delimiter=delimiter), [])
    for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
        if len(columns) == 1 and other in columns[0].strip() and other != delimiter:
            here = "commas in .csv" if delimiter == "," else "tabs in .tsv"
            raise ResourceError(f"{path}:{number}: the columns seem to be separated by {name}; rbench expects {here}")
