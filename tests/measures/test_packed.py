"""Tests that packed hits are the hits that were packed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.measures._packed import packed, unpacked


@given(st.lists(st.booleans(), max_size=40))
def test_hits_come_back(hits: list[bool]) -> None:
    assert unpacked(packed(hits), len(hits)).tolist() == hits


def test_four_hits_are_a_digit() -> None:
    assert packed([True, False, True, False, True]) == "a8"
    with pytest.raises(ValueError, match="2 digits do not hold 9 hits"):
        unpacked("a8", 9)
