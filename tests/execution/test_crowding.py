"""Tests who is warned that processes of one machine have more threads than it has cores."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rbench.execution.cluster.membership import ProcessIdentity
from rbench.execution.run import crowding_warning

HERE = dataclasses.asdict(ProcessIdentity.own())
ELSEWHERE = {**HERE, "host": "node-1"}


@pytest.mark.parametrize(
    ("others", "threads", "cores"),
    [
        pytest.param([], 4, 2, id="alone"),
        pytest.param([{**ELSEWHERE, "threads": 2}], 2, 2, id="on another machine"),
        pytest.param([{**HERE, "threads": 1}], 1, 2, id="one thread each"),
        pytest.param([{**HERE, "threads": 2}, {**HERE, "threads": 1}], 1, 4, id="all cores are used, and no more"),
        pytest.param([{"id": "a", "threads": 2}], 2, 2, id="it does not say where it is"),
    ],
)
def test_nothing_is_said_where_threads_have_cores(others: list[dict[str, Any]], threads: int, cores: int) -> None:
    assert crowding_warning(others, threads, cores) is None


def test_too_many_threads_are_told_with_a_remedy() -> None:
    said = crowding_warning([{**HERE, "threads": 4}, {**ELSEWHERE, "threads": 8}], 4, 4)
    assert said is not None
    assert "2 processes of this run share the 4 cores of this machine and compute with 8 threads" in said
    assert "OMP_NUM_THREADS=2" in said and "with --processes 2" in said


def test_who_has_not_said_counts_as_this_one() -> None:
    assert crowding_warning([HERE], 1, 2) is None
    assert "compute with 4 threads" in (crowding_warning([HERE], 2, 2) or "")


def test_more_processes_than_cores_are_told_how_many_to_start() -> None:
    said = crowding_warning([{**HERE, "threads": 1}] * 2, 1, 2)
    assert said is not None
    assert "3 processes" in said and "at most 2 here, each with OMP_NUM_THREADS=1" in said and "--processes 2" in said
    assert "share the 1 core of" in (crowding_warning([{**HERE, "threads": 1}], 1, 1) or "")
