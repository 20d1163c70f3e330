"""The seeded rules that divide data which comes undivided. They are written down here, and changing them changes data.

A permutation is numpy's `Generator(PCG64(seed)).permutation(n)` of the row numbers 0..n-1 of a source as published,
before any row is left out. Within a split rows keep the order of their source.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

HOLDOUT = "[holdout]"
"""Suffix of a split's source: `train[holdout]` is the seeded part of `train` that is kept out of it."""

HOLDOUT_SHARE = 0.1
HOLDOUT_MOST = 5000
HOLDOUT_SEED = 0


def permutation(rows: int, seed: int) -> list[int]:
    """The row numbers 0..rows-1 in seeded order."""
    return [int(i) for i in np.random.Generator(np.random.PCG64(seed)).permutation(rows)]


def three_way(
    rows: int, *, seed: int, validation: float, test: float, test_rows: Collection[int] | None = None
) -> dict[str, list[int]]:
    """Row numbers by split for `spec.Unsplit`: each row is in exactly one of train, validation and test.

    Test is `test_rows` where they are given, otherwise the first floor(test * rows) of the permutation. Validation is
    the first floor(validation * rest) of what is left of the permutation, train is what then remains.

    Raises:
        ValueError: a test row that is no row number, or is listed twice.
    """
    order = permutation(rows, seed)
    if test_rows is None:
        tested = set(order[: int(test * rows)])
    else:
        tested = set(test_rows)
        if len(tested) != len(test_rows):
            raise ValueError("a row is listed twice")
        beyond = [row for row in tested if not 0 <= row < rows]
        if beyond:
            raise ValueError(f"row {beyond[0]} is listed and there are {rows} rows, counted from 0")
    rest = [row for row in order if row not in tested]
    cut = int(validation * len(rest))
    return {"train": sorted(rest[cut:]), "validation": sorted(rest[:cut]), "test": sorted(tested)}


def holdout(rows: int) -> list[int]:
    """The rows of a training source that serve as validation: the first tenth of the permutation, at most 5,000."""
    return sorted(permutation(rows, HOLDOUT_SEED)[: min(int(HOLDOUT_SHARE * rows), HOLDOUT_MOST)])


def source_of(name: str) -> tuple[str, bool]:
    """A split's source without the holdout suffix, and whether it had one."""
    return (name.removesuffix(HOLDOUT), True) if name.endswith(HOLDOUT) else (name, False)


def kept(name: str, named: Collection[str], rows: int) -> range | list[int]:
    """The row numbers that the split source `name` stands for, where `named` are all sources that the task names.

    `train[holdout]` is the held-out rows; `train` is all rows, or, where the task also names `train[holdout]`, the
    others.
    """
    source, held = source_of(name)
    if held:
        return holdout(rows)
    if source + HOLDOUT in named:
        out = set(holdout(rows))
        return [row for row in range(rows) if row not in out]
    return range(rows)
