"""Read the footer of a Parquet file before pyarrow does.

pyarrow ends the process, by an exception that nothing can catch, where some footers that lie are asked for their
columns (measured with 26.0: a flipped bit is enough). So the footer of a file that may come from somebody else is read
here, and compared with what `runs.parquet` writes. It is a structure in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_MAX_DEPTH = 8
"""Most structures and lists inside each other; a footer has five."""
_TRUE, _FALSE, _BYTE, _NUMBERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
_CHUNK_FIELDS = {2, 3, 4, 5, 6, 7}
"""The fields of a column's part that are neither a path of another file nor of an encryption."""


class RowGroup(NamedTuple):
    """A row group."""

    rows: int
    size: int
    """Bytes of its columns."""


def read_footer(content: bytes, columns: list[str]) -> list[RowGroup]:
    """Return the row groups of a Parquet file.

    Raises:
        ValueError: there is no footer, or it has other columns, or columns that are compressed, in other files, share
            bytes, or lie elsewhere than in the file, or more rows than so many bytes can hold.
    """
    end = len(content) - 8
    if end < 4 or not (content.startswith(_MAGIC) and content.endswith(_MAGIC)):
        raise ValueError("it is no Parquet file")
    begin = end - int.from_bytes(content[end : end + 4], "little")
    if begin < 4:
        raise ValueError("its footer is larger than the file")
    try:
        # Numbers of fields are those of FileMetaData in parquet.thrift: 3 the rows, 4 the row groups; of a group 1 its
        # columns, 3 its rows; of a column's part 3 its metadata, where 4 is the codec and 7 the compressed size.
        footer = _ThriftReader(content[begin:end]).whole()
        groups, expected_start = [], 4
        for group in footer.get(4, []):
            size = 0
            if len(group[1]) != len(columns):
                raise ValueError(f"a row group has {len(group[1])} columns, and outcomes have {len(columns)}")
            for name, chunk in zip(columns, group[1], strict=True):
                column = chunk[3]
                if column[3] != [name.encode()] or not chunk.keys() <= _CHUNK_FIELDS or 8 in column:
                    raise ValueError(f"a row group has no such column {name} as rbench writes")
                if column[4]:
                    raise ValueError(f"the column {name} is compressed inside the file")
                start, length = min(column[9], column.get(11, column[9])), column[7]
                if column[5] != group[3] or start < expected_start or length <= 0 or start + length > begin:
                    raise ValueError(f"the footer says what cannot be of the column {name}")
                expected_start, size = start + length, size + length
            groups.append(RowGroup(group[3], size))
        # No two outcomes have the same job and example, so each takes a bit or more.
        if any(group.rows <= 0 for group in groups) or not sum(group.rows for group in groups) == footer[3] <= 8 * end:
            raise ValueError(f"its footer says that it has {footer[3]} rows")
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"its footer cannot be read ({type(error).__name__}: {error})") from error
    return groups


class _ThriftReader:
    """A structure as a dictionary by the numbers of its fields."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def whole(self) -> Any:
        struct = self._read_struct(0)
        if self._at != len(self._content):
            raise ValueError("its footer has bytes of nothing")
        return struct

    def _read_struct(self, depth: int) -> dict[int, Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("its footer has too many structures inside each other")
        fields: dict[int, Any] = {}
        field = 0
        while (head := self._read_byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._number()
            if field in fields:
                raise ValueError(f"its footer has the field {field} twice")
            kind = head & 15
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # of a list
            return self._read_byte()
        if kind in _NUMBERS:
            return self._number()
        if kind == _DOUBLE:
            return self._read_bytes(8)
        if kind == _BINARY:
            return self._read_bytes(self._read_varint())
        if kind == _STRUCT:
            return self._read_struct(depth + 1)
        if kind not in _LISTS:
            raise ValueError(f"its footer has a field of the unknown kind {kind}")
        head = self._read_byte()
        count = head >> 4 if head >> 4 < 15 else self._read_varint()
        if count > len(self._content) or depth > _MAX_DEPTH:
            raise ValueError("its footer has a list that is longer than itself")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _read_byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _read_bytes(self, length: int) -> bytes:
        content = self._content[self._at : self._at + length]
        if len(content) < length:
            raise ValueError("its footer is cut off")
        self._at += length
        return content

    def _number(self) -> int:
        varint = self._read_varint()
        # Zigzag: even numbers are 0, 1, 2 ..., odd ones -1, -2 ...
        return (varint >> 1) ^ -(varint & 1)

    def _read_varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._read_byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("its footer has a number of more than 64 bits")
