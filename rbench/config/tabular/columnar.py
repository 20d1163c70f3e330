"""Reads parquet files, and folders that `datasets` wrote with `save_to_disk`. Both keep the types of columns.

Where the file states names for the numbers of a column (a ClassLabel), the rows have the names. Only the file knows
what its numbers mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.config.tabular.table import Line, Table
from rbench.errors import ResourceError

if TYPE_CHECKING:
    from datasets import Dataset

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
    if b"huggingface" in (table.schema.metadata or {}):
        from datasets import Features

        names = _names(Features.from_arrow_schema(table.schema))
    else:
        names = {}
    return Table(path, tuple(table.column_names), _rows(table.to_pylist(), path, names), names)


def read_saved(folder: Path) -> dict[str, Table]:
    """Read a folder of `save_to_disk`: the tables of a DatasetDict by split, or a single Dataset under the name "".

    Raises:
        ResourceError: the folder is damaged.
    """
    from datasets import Dataset, load_from_disk

    try:
        found = load_from_disk(str(folder))
        tables: Mapping[Any, Dataset] = {"": found} if isinstance(found, Dataset) else found
        return {str(split): _table(one, folder / str(split)) for split, one in tables.items()}
    except Exception as error:  # the library raises errors of many kinds for a folder that is not whole
        raise ResourceError(
            f"{folder}: `datasets.load_from_disk` cannot read it ({type(error).__name__}: {error}); save it again"
        ) from error


def _table(found: Dataset, path: Path) -> Table:
    # The arrow values are asked for, so that images and sounds in other columns are not decoded.
    rows, names = found.with_format(None).to_list(), _names(found.features)
    return Table(path, tuple(found.column_names), _rows(rows, path, names), names)


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
