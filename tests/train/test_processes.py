"""Processes that map a function: in order, and with an error where one of them ends."""

from __future__ import annotations

import os
import time

import pytest

from rbench.errors import JobError
from rbench.train.edits import CHUNK, Pool


class Codes:
    """Cut into pieces, each of them is an exit code."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, part: slice) -> int:
        return 9


@pytest.mark.parametrize("count", [1, 2])
def test_chunks_come_back_in_order(count: int) -> None:
    items = [f"{number:09d}" for number in range(2 * CHUNK + 7)]
    with Pool(count) as pool:
        assert [item for part in pool.map(sorted, items) for item in part] == items
        assert list(pool.map(sorted, [])) == []


def test_what_is_raised_there_is_raised_here_and_ends_them() -> None:
    with pytest.raises(TypeError, match="interpreted as an integer"), Pool(2) as pool:
        list(pool.map(time.sleep, [1] * CHUNK))  # type: ignore[arg-type]


def test_a_process_that_ends_is_an_error() -> None:
    with pytest.raises(JobError, match="died without an error"), Pool(2) as pool:
        list(pool.map(os._exit, Codes()))  # type: ignore[arg-type]
