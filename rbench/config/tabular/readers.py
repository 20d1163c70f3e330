"""Reads CSV, TSV, JSON, JSON Lines, parquet, and folders that `datasets` wrote with `save_to_disk`.

The last two keep the types of columns. Where they state names for the numbers of a column (a ClassLabel), the rows have
the names. Only the file knows what its numbers mean.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rbench.errors import ResourceError

_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Line(NamedTuple):
    """A row: its place for messages (`file:line`, or `file:row N` with N from 1), and its values by column."""

    where: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of one file, or of one split, in their order."""

    path: Path
    columns: tuple[str, ...]
    rows: Sequence[Line] = field(repr=False)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of a column's numbers 0, 1, ..., where the file states them (a ClassLabel of the datasets library)."""


def text_of_label(value: Any) -> str:
    """Write a label in the same way whatever the format: 1, 1.0 and "1.0" are `1`. Empty for None, NaN and blanks."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def text_of(path: Path) -> str:
    """Return the whole text, without a byte order mark.

    Raises:
        ResourceError: the file is not gzip though its name says so, or is not UTF-8; names `file:line`.
    """
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ResourceError(f"{path}: cannot be unpacked ({error}); write it again with gzip") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ResourceError(f"{path}:{line}: not UTF-8 ({error.reason}); save the file as UTF-8") from error


def check_unicode(text: str, what: str) -> None:
    """Raise ResourceError, with `what` at its head, if JSON's escapes made a text that cannot be encoded as UTF-8."""
    if not text.isascii() and _SURROGATE.search(text):
        raise ResourceError(f"{what} has half a character (a lone surrogate), which is not valid Unicode")


class _Record(NamedTuple):
    """The fields of a row, and the line (from 1) at which it begins."""

    line: int
    fields: list[str]


def read_delimited(path: Path, delimiter: str) -> Table:
    """Read a table whose fields are separated by `delimiter`, a comma or a tab. All values are strings.

    The first row has the names of the columns, and every other row has as many fields. A field in double quotes may
    hold separators, quotes (doubled) and line ends. In CSV quotes always mean this. TSV is written with and without it.
    So it is read with it, and where that fails quotes are characters like others. TSV in which both ways give whole
    rows, but not the same ones, is refused.

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
    """Read TSV by the rule of `read_delimited`."""
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


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line that is not blank, without white space around it.

    Raises:
        ResourceError: a line is not UTF-8 (names `file:line`), or the file cannot be unpacked.
    """
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                except UnicodeDecodeError as error:
                    raise ResourceError(f"{path}:{number}: not UTF-8 ({error.reason} at byte {error.start})") from error
                if text:
                    yield number, text
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ResourceError(f"{path}: cannot be unpacked ({error}); write it again with gzip") from error


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
    return _of_rows(path, [Line(f"{path}:{n}", object_of(text, f"{path}:{n}")) for n, text in lines_of(path)])


def read_json(path: Path) -> Table:
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
    return _of_rows(path, [Line(f"{path}:row {i}", row) for i, row in enumerate(value, 1)])


def _expected(path: Path) -> str:
    return (
        f'{path}: expected a list of objects, like [{{"text": ..., "label": ...}}, ...], or one object a line. '
        'pandas writes the former with df.to_json(path, orient="records")'
    )


def _of_rows(path: Path, rows: list[Line]) -> Table:
    columns = dict.fromkeys(key for row in rows for key in row.values)
    return Table(path, tuple(columns), rows)


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ResourceError(f"{place}: not JSON ({error})") from error
    except ValueError as error:  # Python refuses integers of more than a few thousand digits
        raise ResourceError(f"{place}: not JSON (a number has too many digits: {error})") from error


MARKS = ("dataset_dict.json", "state.json")
"""The files by which a folder of `save_to_disk` is known: of a DatasetDict, and of a single Dataset."""


def is_saved(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((folder / mark).is_file() for mark in MARKS)


def read_parquet(path: Path) -> Table:
    """Read a parquet file. Names of labels are taken from what the datasets library writes into it.

    Raises:
        ResourceError: it is not a parquet file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise ResourceError(f"{path}: not a parquet file that can be read ({error})") from error
    names: dict[str, tuple[str, ...]] = {}
    if b"huggingface" in (table.schema.metadata or {}):
        from datasets import Features

        names = _names(Features.from_arrow_schema(table.schema))
    return Table(path, tuple(table.column_names), _rows(table.to_pylist(), path, names), names)


def read_saved(folder: Path) -> dict[str, Table]:
    """Read a folder of `save_to_disk`: the tables of a DatasetDict by split, or a single Dataset under the name "".

    Raises:
        ResourceError: the folder is damaged.
    """
    from datasets import Dataset, load_from_disk

    try:
        found = load_from_disk(str(folder))
        tables: dict[str, Table] = {}
        for split, one in ({"": found} if isinstance(found, Dataset) else found).items():
            path, names = folder / str(split), _names(one.features)
            # The arrow values are asked for, so that images and sounds in other columns are not decoded.
            rows = _rows(one.with_format(None).to_list(), path, names)
            tables[str(split)] = Table(path, tuple(one.column_names), rows, names)
        return tables
    except Exception as error:  # the library raises errors of many kinds for a folder that is not whole
        raise ResourceError(
            f"{folder}: `datasets.load_from_disk` cannot read it ({type(error).__name__}: {error}); save it again"
        ) from error


def _names(features: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the label names of the columns that have them."""
    return {column: tuple(kind.names) for column, kind in features.items() if getattr(kind, "names", None)}


def _rows(values: Iterable[Mapping[str, Any]], path: Path, names: Mapping[str, tuple[str, ...]]) -> list[Line]:
    return [
        Line(f"{path}:row {i}", {column: _known(value, names.get(column, ())) for column, value in row.items()})
        for i, row in enumerate(values, 1)
    ]


def _known(value: Any, names: tuple[str, ...]) -> Any:
    """Return the name of a number that has one. NaN, with which pandas marks a missing value, is None.

    So is a number outside the names: -1 marks a row without label.
    """
    if names and type(value) is int:
        return names[value] if 0 <= value < len(names) else None
    return None if isinstance(value, float) and math.isnan(value) else value
