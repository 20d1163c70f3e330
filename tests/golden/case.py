"""Defines a golden case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Value = Any
"""JSON: dictionaries and lists of numbers, texts and truth values."""


@dataclass(frozen=True)
class Case:
    """One computation on fixed inputs.

    Args:
        name: `<kind>/<name>`; its values are in `values/<kind>/<name>.json`.
        files: the module that the case is of, as a path from the repository's root, and what it reaches by other ways
            than an import. VERSIONs are those of these files and of all that they import.
        compute: is given a folder that it may write to, shared with other cases.
    """

    name: str
    files: tuple[str, ...]
    compute: Callable[[Path], Value]
