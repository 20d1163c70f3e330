"""The outcomes of a RUN as one Parquet file: a row for each outcome, the rows of a job together, in their order.

The columns are `job`, the key of the outcome's job, and those of `outcomes.COLUMNS` with their types. Texts and steps,
which are lists, are columns of JSON. So no column is nested: one row of a nested column can decode to any number of
values, and of a flat one it is at most as large as the bytes of its column.

A file may come from somebody else, and a few hundred bytes of Parquet can decode to gigabytes, by a compressed page or
by a dictionary of one value. So pages are not compressed (the archive around the file is), and rows are decoded in
batches of so few that all of them together could not take more than BATCH bytes, whatever the file says.

pyarrow is imported when a file is written or read, because most verbs do neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any

from pydantic_core import from_json, to_json

from rbench.schema import Outcome
from rbench.store.runs.footer import read_footer
from rbench.store.runs.outcomes import COLUMNS
from rbench.system.below import MEGABYTE

BATCH_BYTES = 256 * MEGABYTE
"""Most bytes that are decoded at a time."""
ROWS = 8192
"""Rows of a row group, and one job more. One job is read by decoding the group that holds it."""
_JSON_COLUMNS = frozenset(name for name, column in COLUMNS.items() if column.type.startswith("list"))


@cache
def build_schema() -> Any:
    """Return the schema of the file, as pyarrow has it."""
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    columns = [pa.field(name, types.get(column.type, pa.string()), column.nullable) for name, column in COLUMNS.items()]
    return pa.schema([pa.field("job", pa.string(), nullable=False), *columns])


def write_parquet(jobs: Iterable[tuple[str, Sequence[Outcome]]]) -> bytes:
    """Return the file of these jobs, each with its key and its outcomes."""
    from pyarrow import Table, parquet

    content = BytesIO()
    # What pyarrow says of its own types, and the least and greatest value of each column, nobody needs here.
    options = {"compression": "none", "store_schema": False, "write_statistics": False}
    with parquet.ParquetWriter(content, build_schema(), dictionary_pagesize_limit=BATCH_BYTES, **options) as writer:
        rows: list[dict[str, Any]] = []
        for key, outcomes in jobs:
            rows += (_build_row(key, outcome) for outcome in outcomes)
            if len(rows) >= ROWS:
                writer.write_table(Table.from_pylist(rows, build_schema()), row_group_size=len(rows))
                rows = []
        if rows:
            writer.write_table(Table.from_pylist(rows, build_schema()), row_group_size=len(rows))
    return content.getvalue()


def _build_row(key: str, outcome: Outcome) -> dict[str, Any]:
    values = {name: getattr(outcome, name) for name in COLUMNS}
    for name in _JSON_COLUMNS:
        if values[name] is not None:
            values[name] = to_json(values[name]).decode()
    return {"job": key, **values}


class OutcomesFile:
    """A file that `write_parquet` made, or that says so.

    Args:
        content: its bytes.

    Attributes:
        groups: the row group of each job, by the job's key.

    Raises:
        ValueError: it is no Parquet, has another schema, or its footer says what cannot be. So do all methods.
    """

    def __init__(self, content: bytes) -> None:
        with _as_value_error():
            from pyarrow import BufferReader, parquet

            self._groups = read_footer(content, build_schema().names)
            self._file = parquet.ParquetFile(BufferReader(content))
            if not self._file.schema_arrow.equals(build_schema()):
                raise ValueError("it has other columns than outcomes have, or columns of other types")
            self.groups: dict[str, int] = {}
            # All keys are read at once: a job whose rows are in two groups would be read by half.
            for group in range(len(self._groups)):
                last = None
                for batch in self._batches(group, ["job"]):
                    for key in batch.column(0).to_pylist():
                        if key != last and key in self.groups:
                            raise ValueError("the outcomes of a job are not together")
                        self.groups[key], last = group, key

    def outcomes(self, group: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the outcomes of a row group, each with the key of its job. Lists are lists."""
        with _as_value_error():
            for batch in self._batches(group, build_schema().names):
                names = batch.schema.names
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    row = dict(zip(names, values, strict=True))
                    for name in _JSON_COLUMNS:
                        if row[name] is not None:
                            row[name] = from_json(row[name])
                    yield row.pop("job"), row

    def _batches(self, group: int, columns: list[str]) -> Iterator[Any]:
        """Decode a row group. A value has at most the bytes of its column's part of the group, by any encoding."""
        stated_group = self._groups[group]
        rows_a_batch = max(1, min(ROWS, BATCH_BYTES // stated_group.size))
        rows = 0
        for batch in self._file.iter_batches(rows_a_batch, row_groups=[group], columns=columns, use_threads=False):
            batch.validate(full=True)
            rows += batch.num_rows
            yield batch
        if rows != stated_group.rows:
            raise ValueError(f"a row group has {rows} rows, and its footer says {stated_group.rows}")


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Turn what pyarrow raises of a damaged file into ValueError."""
    from pyarrow import ArrowException

    try:
        yield
    except ValueError:
        raise
    except (ArrowException, OSError, MemoryError, OverflowError, RecursionError, EOFError) as error:
        raise ValueError(f"it is no Parquet file that can be read: {error}") from error
