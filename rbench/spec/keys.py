"""Computes content hashes of specifications, which are the keys of jobs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from rbench.errors import SuiteError
from rbench.spec.common import Strict
from rbench.spec.entries import Named


def keyed(value: Any) -> Any:
    """Return what of a value enters a key, as JSON: without titles, notes, and fields that have no effect."""
    if isinstance(value, Named):
        return {k: keyed(v) for k, v in value if k not in value.COSMETIC | value.without_effect()}
    if isinstance(value, Strict):
        return {k: keyed(v) for k, v in value if k not in value.without_effect()}
    if isinstance(value, BaseModel):
        return {k: keyed(v) for k, v in value}
    if isinstance(value, Mapping):
        return {str(k): keyed(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [keyed(v) for v in value]
    return value


def content_key(value: Any) -> str:
    """Hash a value's content into 64 hex digits. They are the same on every machine and ignore titles and key order.

    Raises SuiteError for a number that is infinite or NaN, which JSON does not have, and says where it is.
    """
    content = keyed(value)
    try:
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        wrong = [(place, number) for place, number in _numbers(content, ()) if not math.isfinite(number)]
        if not wrong:
            raise
        place, number = wrong[0]
        raise SuiteError(f"`{'.'.join(place)}` is {number}, which is no number that can be set") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(item, (*place, str(key)))
