"""Reads and writes golden values, and finds the differences between two of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from tests.golden.case import Case, Value
from tests.golden.versions import Versions

VALUES = Path(__file__).with_name("values")
RELATIVE = 1e-4
"""A formula that is another moves a number by more; another processor or PyTorch by less."""
ABSOLUTE = 1e-5


class Golden(NamedTuple):
    """What is recorded of a case."""

    versions: Versions
    value: Value


def path_of(case: Case, folder: Path = VALUES) -> Path:
    return folder / f"{case.name}.json"


def read(case: Case, folder: Path = VALUES) -> Golden | None:
    """What is recorded; None where nothing is."""
    path = path_of(case, folder)
    return Golden(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def write(case: Case, golden: Golden, folder: Path = VALUES) -> None:
    path = path_of(case, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(golden._asdict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def plain(value: Value) -> Value:
    """The value as JSON gives it back, its numbers with so many digits as can be compared."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) and math.isfinite(value) else value


def differences(recorded: Value, found: Value, at: str = "") -> list[str]:
    """Where the two differ, one line each.

    Words, counts and truth values must be the same. Numbers may differ by rounding, in a list by that of its largest.
    Options in `defaults` are not computed, so that their numbers must be the same, too; some may have been added, which
    change nothing as long as the values stay.
    """
    if isinstance(recorded, dict) and isinstance(found, dict):
        added = set() if at.endswith("/defaults") else found.keys() - recorded.keys()
        lines = [f"{at}/{key}: {'gone' if key in recorded else 'new'}" for key in {*(recorded.keys() - found), *added}]
        both = [key for key in recorded if key in found]
        return sorted(lines) + [line for key in both for line in differences(recorded[key], found[key], f"{at}/{key}")]
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        if all(isinstance(x, float) for x in (*recorded, *found)):
            size = max((abs(x) for x in recorded), default=0.0)
            near = all(_near(a, b, size) for a, b in zip(recorded, found, strict=True))
            return [] if near else [_line(at, recorded, found)]
        pairs = enumerate(zip(recorded, found, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{at}/{i}")]
    if isinstance(recorded, float) and isinstance(found, float) and "/defaults/" not in at:
        return [] if _near(recorded, found, abs(recorded)) else [_line(at, recorded, found)]
    same = type(recorded) is type(found) and recorded == found
    return [] if same else [_line(at, recorded, found)]


def _near(a: float, b: float, size: float) -> bool:
    return abs(a - b) <= max(RELATIVE * size, ABSOLUTE)


def _line(at: str, recorded: Any, found: Any) -> str:
    return f"{at}: {_short(recorded)} became {_short(found)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + " ..."
