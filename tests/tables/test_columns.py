"""Tests which entries of a column are marked best."""

from __future__ import annotations

import pytest

from rbench.tables.columns import mark_best
from rbench.tables.table import Number


def best(*values: float | None, digits: int = 1, percent: bool = True) -> list[bool]:
    rows = [[None if value is None else Number(value, percent, digits=digits)] for value in values]
    return [entry is not None and entry.best for (entry,) in mark_best(rows, ["asr"])]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.5, 0.4, 0.6), [False, True, False]),
        ((0.4001, 0.4002, 0.6), [True, True, False]),  # both read 40.0
        ((0.4004, 0.4006), [True, False]),  # 40.0 and 40.1
        ((0.4, 0.4), [False, False]),
        ((0.4001, 0.4002), [False, False]),
        ((0.4, None), [False, False]),
        ((0.4,), [False]),
    ],
)
def test_entries_that_read_alike_are_equally_good(values: tuple[float | None, ...], expected: list[bool]) -> None:
    assert best(*values) == expected


def test_what_is_read_goes_by_scale_and_digits() -> None:
    assert best(12.31, 12.34, 20.0, percent=False) == [True, True, False]
    assert best(12.31, 12.34, 20.0, percent=False, digits=2) == [True, False, False]
