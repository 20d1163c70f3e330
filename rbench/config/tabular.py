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
from rbench.system.own_code import failing_in

_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class TableRow(NamedTuple):
    """A row: its place for messages (`file:line`, or `file:row N` with N from 1), and its values by column."""

    where: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class FileTable:
    """The rows of one file, or of one split, in their order."""

    path: Path
    columns: tuple[str, ...]
    rows: Sequence[TableRow] = field(repr=False)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of a column's numbers 0, 1, ..., where the file states them (a ClassLabel of the datasets library)."""


def text_of_label(value: Any) -> str:
    """Write a label in the same way whatever the format: 1, 1.0 and "1.0" are `1`. Empty for None, NaN and blanks."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = str(value).strip()
    whole_number = _WHOLE.fullmatch(text)
    return whole_number[1] if whole_number else text


def read_table_text(path: Path) -> str:
    """Return the whole text, without a byte order mark.

    Raises ResourceError where it is not UTF-8, and OSError where it cannot be read or unpacked.
    """
    with failing_in(path):
        return named.read(path, named.TABLE_BYTES, packed=_is_packed(path)).decode("utf-8-sig")


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def check_unicode(text: str, what: str) -> None:
    """Raise ResourceError, with `what` at its head, if JSON's escapes made a text that cannot be encoded as UTF-8."""
    if not text.isascii() and _SURROGATE.search(text):
        raise ResourceError(f"{what} has half a character (a lone surrogate), which is not valid Unicode")


class _RawRow(NamedTuple):
    """The fields of a row, and the line (from 1) at which it begins."""

    line: int
    fields: list[str]


def read_delimited(path: Path, delimiter: str) -> FileTable:
    """Read a table whose fields are separated by `delimiter`, a comma or a tab. All values are strings.

    A file without a comma in its header, but with semicolons, is read with these in place of commas.

    The first row has the names of the columns, and every other row has as many fields. A field in double quotes may
    hold separators, quotes (doubled) and line ends. In CSV quotes always mean this. Some programs write TSV with such
    quotes and others take quotes for ordinary characters. So TSV is read with quoted fields first, and if that fails,
    with ordinary quotes. A file that both ways can read, with different rows, is refused.

    Raises:
        ResourceError: a row has more or fewer fields than the header, a quoted field does not end, or the header is
            missing or names a column twice; names `file:line`.
    """
    csv.field_size_limit(sys.maxsize)  # a text may be longer than Python's limit of 131,072 characters
    text = read_table_text(path)
    head = text.partition("\n")[0]
    if delimiter == "," and "," not in head and ";" in head:
        delimiter = ";"  # as spreadsheets write CSV where a comma separates decimals
    records = _read_tsv(text, path) if delimiter == "\t" else _check_regular(_read_records(text, delimiter, path), path)
    (line, header), *body = records or [_RawRow(1, [])]
    columns = [name.strip() for name in header]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ResourceError(f"{path}:{line}: the header has the column `{twice}` twice; rename one of them")
    rows = [TableRow(f"{path}:{line}", dict(zip(columns, fields, strict=True))) for line, fields in body]
    return FileTable(path, tuple(columns), rows)


def _read_tsv(text: str, path: Path) -> list[_RawRow]:
    """Read TSV by the rule of `read_delimited`."""
    # Both readings are made: where both fit and differ, nothing in the file tells which is right.
    plain = _read_records(text, "\t", path, quotes=False)
    even = _first_ragged(plain) is None
    try:
        quoted = _check_regular(_read_records(text, "\t", path), path)
    except ResourceError:
        if not even:
            raise
        return plain
    ambiguous = next((record for record in quoted if any(set(field) & {*"\t\r\n"} for field in record.fields)), None)
    if ambiguous is not None and even:
        raise ResourceError(
            f"{path}:{ambiguous.line}: the quotes of this row may enclose a text, or be part of it. Write the table as "
            "CSV or JSON Lines"
        )
    return quoted


def _read_records(text: str, delimiter: str, path: Path, *, quotes: bool = True) -> list[_RawRow]:
    """Return all rows but blank lines. Raises ResourceError where a quoted field does not end as it should."""
    file = io.StringIO(text, newline="")
    if quotes:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    records: list[_RawRow] = []
    line = 1
    with failing_in(lambda: f"{path}:{line}"):
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                records.append(_RawRow(line, fields))
            line = reader.line_num + 1
    return records


def _first_ragged(records: list[_RawRow]) -> _RawRow | None:
    """Return the first row whose number of fields is not that of the header."""
    return next((record for record in records if len(record.fields) != len(records[0].fields)), None)


def _check_regular(records: list[_RawRow], path: Path) -> list[_RawRow]:
    """Return the rows. Raises ResourceError where one has not as many fields as the header."""
    wrong = _first_ragged(records)
    if wrong is not None:
        raise ResourceError(
            f"{path}:{wrong.line}: this row has {len(wrong.fields)} fields and the header has "
            f"{len(records[0].fields)} ({', '.join(records[0].fields)}). Put a text that holds the separator or a "
            "line end into double quotes"
        )
    return records


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line that is not blank, without white space around it.

    Raises ResourceError where a line is not UTF-8 (names `file:line`), and OSError where the file cannot be unpacked.
    """
    number = 1
    with failing_in(lambda: f"{path}:{number}"):
        for number, line in enumerate(named.iter_lines(path, packed=_is_packed(path)), start=1):
            if text := line.decode("utf-8-sig" if number == 1 else "utf-8").strip():
                yield number, text


def parse_object(text: str, place: str) -> dict[str, Any]:
    """Parse a line of JSON Lines. Raises ResourceError, with `place` at its head, where it is not a JSON object."""
    value = _parse_json(text, place)
    if not isinstance(value, dict):
        raise ResourceError(f'{place}: expected a JSON object, like {{"text": ..., "label": ...}}')
    return value


def read_json_lines(path: Path) -> FileTable:
    """Read JSON Lines. The columns are the keys of all rows, in order of appearance.

    Raises:
        ResourceError: a line is not UTF-8 or not a JSON object; names `file:line`.
    """
    return _table_of_rows(
        path, [TableRow(f"{path}:{n}", parse_object(text, f"{path}:{n}")) for n, text in numbered_lines(path)]
    )


def read_json(path: Path) -> FileTable:
    """Read a file whose JSON is a list of objects. A file of JSON Lines is read as such.

    Raises:
        ResourceError: the file is neither.
    """
    text = read_table_text(path).strip()
    if text.startswith("{"):
        return read_json_lines(path)
    value = _parse_json(text, str(path))
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ResourceError(_expected_message(path))
    return _table_of_rows(path, [TableRow(f"{path}:row {i}", row) for i, row in enumerate(value, 1)])


def _expected_message(path: Path) -> str:
    return (
        f'{path}: expected a list of objects, like [{{"text": ..., "label": ...}}, ...], or one object a line. '
        'pandas writes the former with df.to_json(path, orient="records")'
    )


def _table_of_rows(path: Path, rows: list[TableRow]) -> FileTable:
    columns = dict.fromkeys(key for row in rows for key in row.values)
    return FileTable(path, tuple(columns), rows)


def _parse_json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResourceError(f"{place}: not JSON ({error})") from error


SAVED_MARKS = ("dataset_dict.json", "state.json")
"""The files by which a folder of `save_to_disk` is known: of a DatasetDict, and of a single Dataset."""


def is_saved(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((folder / mark).is_file() for mark in SAVED_MARKS)


def read_parquet(path: Path) -> FileTable:
    """Read a parquet file. Names of labels are taken from what the datasets library writes into it.

    Raises:
        ResourceError: it is not a parquet file.
    """
    from pyarrow import parquet

    with failing_in(path):
        with named.open_file(path, named.TABLE_BYTES, packed=False) as file:
            file.read(1)
        table = parquet.ParquetFile(path).read()
    names: dict[str, tuple[str, ...]] = {}
    if b"huggingface" in (table.schema.metadata or {}):
        from datasets import Features

        names = _label_names(Features.from_arrow_schema(table.schema))
    return FileTable(path, tuple(table.column_names), _number_rows(table.to_pylist(), path, names), names)


def read_saved(folder: Path) -> dict[str, FileTable]:
    """Read a folder of `save_to_disk`: the tables of a DatasetDict by split, or a single Dataset under the name "".

    Raises:
        ResourceError: the folder is damaged.
    """
    from datasets import Dataset, load_from_disk

    with failing_in(folder, remedy="Save it again"):
        dataset = load_from_disk(str(folder))
        tables: dict[str, FileTable] = {}
        for split, split_data in ({"": dataset} if isinstance(dataset, Dataset) else dataset).items():
            path, names = folder / str(split), _label_names(split_data.features)
            # The arrow values are asked for, so that images and sounds in other columns are not decoded.
            rows = _number_rows(split_data.with_format(None).to_list(), path, names)
            tables[str(split)] = FileTable(path, tuple(split_data.column_names), rows, names)
        return tables


def _label_names(features: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the label names of the columns that have them."""
    return {column: tuple(kind.names) for column, kind in features.items() if getattr(kind, "names", None)}


def _number_rows(
    values: Iterable[Mapping[str, Any]], path: Path, names: Mapping[str, tuple[str, ...]]
) -> list[TableRow]:
    return [
        TableRow(
            f"{path}:row {i}", {column: _named_value(value, names.get(column, ())) for column, value in row.items()}
        )
        for i, row in enumerate(values, 1)
    ]


def _named_value(value: Any, names: tuple[str, ...]) -> Any:
    """Return the name of a number that has one. NaN, with which pandas marks a missing value, is None.

    So is a number outside the names: -1 marks a row without label.
    """
    if names and type(value) is int:
        return names[value] if 0 <= value < len(names) else None
    return None if isinstance(value, float) and math.isnan(value) else value


READERS: Mapping[str, Callable[[Path], FileTable]] = {
    ".csv": lambda path: read_delimited(path, ","),
    ".tsv": lambda path: read_delimited(path, "\t"),
    ".json": read_json,
    ".jsonl": read_json_lines,
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
class TablePlace:
    """What a place holds: one table that is not divided (`whole`), or tables by split (train, validation, test)."""

    path: Path
    whole: FileTable | None
    splits: Mapping[str, FileTable]
    left_out: tuple[str, ...] = ()
    """Splits of the place that rbench has no use for."""

    @property
    def tables(self) -> list[FileTable]:
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


def open_place(path: Path) -> TablePlace:
    """Read all rows of a place.

    Raises:
        ResourceError: there is no such place, it has no table or several of one split, or a table cannot be read.
    """
    if path.is_file():
        return TablePlace(path, _read_table(path), {})
    if is_saved(path):
        return _place_of_saved(path, read_saved(path))
    split_files = find_split_files(path)
    tables: dict[str, FileTable] = {}
    for split, files in split_files.items():  # several files of one split are one table
        first, *others = [_read_table(file) for file in files]
        rows = [row for table in (first, *others) for row in table.rows]
        tables[split] = FileTable(first.path, first.columns, rows, first.names) if others else first
    return TablePlace(path, None, tables)


def list_files(path: Path) -> list[Path]:
    """Return the files that `open_place` reads. Raises ResourceError as it does."""
    if path.is_file():
        return [path]
    if is_saved(path):
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [file for files in find_split_files(path).values() for file in files]


def find_split_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split in a folder: `train.csv`, `test.parquet`, `valid.jsonl` ...

    Raises:
        ResourceError: there is no such folder, it has no such file, a split has several files, or a numbered one is
            missing.
    """
    tables = sorted(file for file in folder.iterdir() if file.is_file() and is_table(file.name))
    files_by_split: dict[str, dict[str, list[Path]]] = {}
    for file in tables:
        stem, ending = _split_endings(file.name)
        name = _STEM.fullmatch(stem)
        split = SPLITS.get(name[1].lower()) if name is not None else None
        if split is not None and name is not None:
            # The name of the table: that of the file, or what its numbered pieces have in common.
            whole_name = f"{name[1]}-of-{name[3]}{ending}" if name[3] else file.name
            files_by_split.setdefault(split, {}).setdefault(whole_name, []).append(file)
    for split, wholes in files_by_split.items():
        if len(wholes) > 1:
            several = ", ".join(file.name for files in wholes.values() for file in files)
            raise ResourceError(f"{folder}: its {split} split has several files ({several}); remove all but one")
        _check_whole(folder, split, next(iter(wholes.values())))
    if not files_by_split:
        table_names = ", ".join(file.name for file in tables[:5])
        hint = (
            f"it has {table_names}: name one of them, or rename it to test{_split_endings(tables[0].name)[1]}"
            if table_names
            else "it has no table"
        )
        raise ResourceError(
            f"{folder}: expected train, validation and test files ({', '.join(READERS)}), or a folder of "
            f"`datasets.save_to_disk`; {hint}"
        )
    return {
        split: next(iter(files_by_split[split].values()))
        for split in ("train", "validation", "test")
        if split in files_by_split
    }


def _split_endings(name: str) -> tuple[str, str]:
    """Return the name of a table without its endings, and these: `train` and `.csv.gz`."""
    ending = suffix_of(name) + (".gz" if name.lower().endswith(".gz") else "")
    return name[: -len(ending)], ending.lower()


def _check_whole(folder: Path, split: str, files: Sequence[Path]) -> None:
    """Raise ResourceError where one of the numbered files of a split is missing, or there twice."""
    numbered = [matched for file in files if (matched := _STEM.fullmatch(_split_endings(file.name)[0])) and matched[3]]
    if not numbered:
        return
    numbers_here, count = [int(matched[2]) for matched in numbered], int(numbered[0][3])
    if sorted(numbers_here) != [*range(count)]:
        numbers = ", ".join(f"{number:05d}" for number in sorted(numbers_here))
        raise ResourceError(
            f"{folder}: of its {split} split there are the files {numbers}; give all {count}, each once"
        )


def _read_table(path: Path) -> FileTable:
    suffix = suffix_of(path.name)
    if not suffix:
        raise ResourceError(f"{path}: a table ends in {', '.join(READERS)}, and all but parquet may end in .gz too")
    return READERS[suffix](path)


def _place_of_saved(path: Path, tables: Mapping[str, FileTable]) -> TablePlace:
    """Return the place of a folder of the datasets library. A data set with one split is not divided."""
    by_split: dict[str, FileTable] = {}
    for name, table in tables.items():
        split = SPLITS.get(name)
        if split is not None and split in by_split:
            raise ResourceError(f"{path}: its splits {', '.join(tables)} name the {split} split twice; remove one")
        if split is not None:
            by_split[split] = table
    if len(tables) == 1 and "test" not in by_split:
        return TablePlace(path, next(iter(tables.values())), {})
    left_out = tuple(name for name in tables if name not in SPLITS)
    return TablePlace(path, None, by_split, left_out)
