"""The type of a table that was read, and how its labels are written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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
