"""The type of a table that was read, and how its labels are written."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rbench.errors import ResourceError

_WHOLE = re.compile(r"([+-]?\d+)\.0+")


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


_SURROGATE = re.compile("[\ud800-\udfff]")


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
