"""Processes that map a function: in order, and with an error where one of them ends."""

from __future__ import annotations

import time

import pytest

from rbench.train.edits import CHUNK_SIZE, EditWorkers


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 2])
def test_chunks_come_back_in_order(count: int) -> None:
    items = [f"{number:09d}" for number in range(2 * CHUNK_SIZE + 7)]
    with EditWorkers(count) as pool:
        assert [item for part in pool.map(sorted, items) for item in part] == items
        assert list(pool.map(sorted, [])) == []


def test_what_is_raised_there_is_raised_here_and_ends_them() -> None:
    with pytest.raises(TypeError), EditWorkers(2) as pool:
        list(pool.map(time.sleep, [1] * CHUNK_SIZE))  # type: ignore[arg-type]
