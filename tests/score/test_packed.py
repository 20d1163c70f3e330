"""Tests that packed hits and numbers are those that were packed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.score.packed import pack_hits, pack_numbers, unpack_hits, unpack_numbers


@given(st.lists(st.booleans(), max_size=40))
def test_hits_come_back(hits: list[bool]) -> None:
    assert unpack_hits(pack_hits(hits), len(hits)).tolist() == hits


def test_four_hits_are_a_digit() -> None:
    assert pack_hits([True, False, True, False, True]) == "a8"
    with pytest.raises(ValueError):
        unpack_hits("a8", 9)


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=40))
def test_numbers_come_back(numbers: list[float]) -> None:
    assert unpack_numbers(pack_numbers(numbers), len(numbers)).tolist() == numbers


@pytest.mark.parametrize("text", ["", "AAAA", "no base64!", pack_numbers([1.0]), pack_numbers([1.0] * 3)])
def test_what_is_not_two_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        unpack_numbers(text, 2)


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(ValueError):
        unpack_numbers(pack_numbers([0.0] * 1_000_000), 2)
