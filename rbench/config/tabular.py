"""Reads tables from users' files: CSV, TSV, JSON, JSON Lines, parquet, and folders that `datasets` saved to disk.

`open_place` reads a file, a folder with one table for each split, or a folder of the datasets library. Every row keeps
its place (`file:line`), and a file that could be read in a wrong way is refused. Which column means what is decided
elsewhere (`rbench.config.tasks`).

Parquet files and saved folders keep the types of columns. Where they state names for the numbers of a column (a
ClassLabel), the rows get the names, because nothing but the file says what its numbers mean.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rbench.errors import ResourceError
from rbench.system import named

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
    content = _content(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ResourceError(f"{path}:{line}: not UTF-8 ({error.reason}); save the file as UTF-8") from error


def _content(path: Path) -> bytes:
    try:
        return named.read(path, named.TABLE, packed=_is_packed(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _unreadable(path: Path, error: OSError) -> ResourceError:
    remedy = "; write it again with gzip" if _is_packed(path) else ""
    return ResourceError(f"{path}: cannot be {'unpacked' if remedy else 'read'} ({error.strerror or error}){remedy}")


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
    hold separators, quotes (doubled) and line ends. In CSV quotes always mean this. Some programs write TSV with such
    quotes and others take quotes for ordinary characters. So TSV is read with quoted fields first, and if that fails,
    with ordinary quotes. A file that both ways can read, with different rows, is refused.

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
    """Return the first row whose number of fields is not that of the header."""
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

    This is checked first: with the wrong separator, the remedies of all other errors would mislead.
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
        for number, line in enumerate(named.lines(path, packed=_is_packed(path)), start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise ResourceError(f"{path}:{number}: not UTF-8 ({error.reason} at byte {error.start})") from error
            if text:
                yield number, text
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


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
        with named.opened(path, named.TABLE, packed=False) as file:
            file.read(1)
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


READERS: Mapping[str, Callable[[Path], Table]] = {
    ".csv": lambda path: read_delimited(path, ","),
    ".tsv": lambda path: read_delimited(path, "\t"),
    ".json": read_json,
    ".jsonl": read_lines,
    ".parquet": read_parquet,
}
"""How a file is read, by its suffix. All but parquet may be packed: `.csv.gz`."""
SPLITS = {
    **{name: name for name in ("train", "validation", "test")},
    **dict.fromkeys(("valid", "val", "dev"), "validation"),
}
"""rbench's names of splits, by the names that files and data sets have."""
_STEM = re.compile(r"(.+?)(?:-(\d{5})-of-(\d{5})(?:-[0-9a-f]{16})?)?")
"""A split's file, or one of several: `train-00000-of-00002.parquet`, as the hub has them; older ones end in a hash."""


@dataclass(frozen=True)
class Place:
    """What a place holds: one table that is not divided (`whole`), or tables by split (train, validation, test)."""

    path: Path
    whole: Table | None
    splits: Mapping[str, Table]
    left_out: tuple[str, ...] = ()
    """Splits of the place that rbench has no use for."""

    @property
    def tables(self) -> list[Table]:
        """All tables, of which there is at least one."""
        return [self.whole] if self.whole is not None else list(self.splits.values())


def suffix_of(name: str) -> str:
    """Return the suffix by which a file is read, without `.gz`. Empty for names of other files."""
    lower = name.lower()
    packed = lower.endswith(".gz")
    suffix = Path(lower.removesuffix(".gz")).suffix
    return suffix if suffix in READERS and not (packed and suffix == ".parquet") else ""


def is_table(name: str) -> bool:
    """Whether the name of a file is that of a table."""
    return bool(suffix_of(name))


def open_place(path: Path) -> Place:
    """Read all rows of a place.

    Raises:
        ResourceError: there is no such place, it has no table or several of one split, or a table cannot be read.
    """
    if path.is_file():
        return Place(path, _read(path), {})
    if is_saved(path):
        return _named(path, read_saved(path))
    found = splits_of(path)
    tables: dict[str, Table] = {}
    for split, files in found.items():  # several files of one split are one table
        first, *others = [_read(file) for file in files]
        rows = [row for table in (first, *others) for row in table.rows]
        tables[split] = Table(first.path, first.columns, rows, first.names) if others else first
    return Place(path, None, tables)


def files_of(path: Path) -> list[Path]:
    """Return the files that `open_place` reads. Raises ResourceError as it does."""
    if path.is_file():
        return [path]
    if is_saved(path):
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [file for files in splits_of(path).values() for file in files]


def splits_of(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split in a folder: `train.csv`, `test.parquet`, `valid.jsonl` ...

    Raises:
        ResourceError: there is no such folder, it has no such file, a split has several files, or a numbered one is
            missing.
    """
    if not folder.is_dir():
        raise ResourceError(f"{folder}: there is no such file or folder")
    tables = sorted(file for file in folder.iterdir() if file.is_file() and is_table(file.name))
    found: dict[str, dict[str, list[Path]]] = {}
    for file in tables:
        stem, ending = _parted(file.name)
        name = _STEM.fullmatch(stem)
        split = SPLITS.get(name[1].lower()) if name is not None else None
        if split is not None and name is not None:
            whole = f"{name[1]}-of-{name[3]}{ending}" if name[3] else file.name  # what the file is, or is a piece of
            found.setdefault(split, {}).setdefault(whole, []).append(file)
    for split, wholes in found.items():
        if len(wholes) > 1:
            several = ", ".join(file.name for files in wholes.values() for file in files)
            raise ResourceError(f"{folder}: its {split} split has several files ({several}); remove all but one")
        _check_whole(folder, split, next(iter(wholes.values())))
    if not found:
        there = ", ".join(file.name for file in tables[:5])
        hint = (
            f"it has {there}: name one of them, or rename it to test{_parted(tables[0].name)[1]}"
            if there
            else "it has no table"
        )
        raise ResourceError(
            f"{folder}: expected train, validation and test files ({', '.join(READERS)}), or a folder of "
            f"`datasets.save_to_disk`; {hint}"
        )
    return {split: next(iter(found[split].values())) for split in ("train", "validation", "test") if split in found}


def _parted(name: str) -> tuple[str, str]:
    """Return the name of a table without its endings, and these: `train` and `.csv.gz`."""
    ending = suffix_of(name) + (".gz" if name.lower().endswith(".gz") else "")
    return name[: -len(ending)], ending.lower()


def _check_whole(folder: Path, split: str, files: Sequence[Path]) -> None:
    """Raise ResourceError where one of the numbered files of a split is missing, or there twice."""
    numbered = [found for file in files if (found := _STEM.fullmatch(_parted(file.name)[0])) and found[3]]
    if not numbered:
        return
    there, count = [int(found[2]) for found in numbered], int(numbered[0][3])
    if missing := sorted({*range(count)} - {*there}):
        raise ResourceError(
            f"{folder}: its {split} split lacks {len(missing)} of {count} files (number {missing[0]:05d}); put all "
            "numbers of one set there"
        )
    if len(there) != count:
        raise ResourceError(f"{folder}: its {split} split has {len(there)} files numbered as {count}; leave each once")


def _read(path: Path) -> Table:
    suffix = suffix_of(path.name)
    if not suffix:
        raise ResourceError(f"{path}: a table ends in {', '.join(READERS)}, and all but parquet may end in .gz too")
    return READERS[suffix](path)


def _named(path: Path, tables: Mapping[str, Table]) -> Place:
    """Return the place of a folder of the datasets library. A data set with one split is not divided."""
    found: dict[str, Table] = {}
    for name, table in tables.items():
        split = SPLITS.get(name)
        if split is not None and split in found:
            raise ResourceError(f"{path}: its splits {', '.join(tables)} name the {split} split twice; remove one")
        if split is not None:
            found[split] = table
    if len(tables) == 1 and "test" not in found:
        return Place(path, next(iter(tables.values())), {})
    left_out = tuple(name for name in tables if name not in SPLITS)
    if not found:
        raise ResourceError(f"{path}: its splits are {', '.join(tables)}; expected train, validation and test")
    return Place(path, None, found, left_out)
