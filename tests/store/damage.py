"""Reads and damages single files of the RUN that tests of this folder copy."""

from __future__ import annotations

from pathlib import Path

from rbench.schema import Record
from tests.store.conftest import World

PWWS, RANDOM, CONTRAST = "clean/pwws", "clean/random", "/contrast"
"""What the names of single jobs contain, as `World.job` and `World.file` take it."""


def read_record(world: World, end: str) -> Record:
    record = world.store.record(world.job(end))
    assert record is not None
    return record


def drop_line(path: Path, number: int) -> None:
    """Remove a line, counted from 1, from a file of outcomes."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))


def alter_line(path: Path, number: int, old: bytes = b'"num_queries":', new: bytes = b'"num_queries":1') -> None:
    """Change a line, counted from 1; by default, its number of queries."""
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new)
    path.write_bytes(b"".join(lines))
