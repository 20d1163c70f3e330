"""The seeded rules that divide unsplit data. Changing a rule changes the data of every task that it divides.

A permutation is numpy's `Generator(PCG64(seed)).permutation(n)` of the row numbers 0..n-1 of a source, as published,
before any row is left out. Within a split rows keep the order of their source.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

HOLDOUT = "[holdout]"
"""Suffix of a split's source: `train[holdout]` is the seeded part of `train` that is held out for validation."""

HOLDOUT_SHARE = 0.1
HOLDOUT_MOST = 5000
HOLDOUT_SEED = 0


def permutation(rows: int, seed: int) -> list[int]:
    """Return the row numbers 0..rows-1 in seeded random order."""
    return [int(i) for i in np.random.Generator(np.random.PCG64(seed)).permutation(rows)]


def three_way(
    rows: int, *, seed: int, validation: float, test: float, test_rows: Collection[int] | None = None
) -> dict[str, list[int]]:
    """Return row numbers by split for `schema.Unsplit`. Each row is in exactly one of train, validation and test.

    The test split is `test_rows` if given, otherwise the first floor(test * rows) numbers of the permutation. Of the
    remaining numbers, in the permutation's order, the first floor(validation * remaining) are validation and the
    others are train.

    Raises:
        ValueError: a test row is not a row number, or is listed twice.
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
            raise ValueError(f"row {beyond[0]} is listed, but there are {rows} rows, counted from 0")
    rest = [row for row in order if row not in tested]
    cut = int(validation * len(rest))
    return {"train": sorted(rest[cut:]), "validation": sorted(rest[:cut]), "test": sorted(tested)}


def holdout(rows: int) -> list[int]:
    """Return the rows of a training source that are held out for validation.

    They are the first tenth of the permutation with seed 0, at most 5,000 rows.
    """
    return sorted(permutation(rows, HOLDOUT_SEED)[: min(int(HOLDOUT_SHARE * rows), HOLDOUT_MOST)])


def source_of(name: str) -> tuple[str, bool]:
    """Return a split's source without the suffix `[holdout]`, and whether it had the suffix."""
    return (name.removesuffix(HOLDOUT), True) if name.endswith(HOLDOUT) else (name, False)


def kept(name: str, named: Collection[str], rows: int) -> range | list[int]:
    """Return the row numbers of the split source `name`, which has `rows` rows.

    `train[holdout]` means the held-out rows. `train` means all rows, or the other rows if the task also names
    `train[holdout]`. `named` holds all sources that the task names.
    """
    source, held = source_of(name)
    if held:
        return holdout(rows)
    if source + HOLDOUT in named:
        out = set(holdout(rows))
        return [row for row in range(rows) if row not in out]
    return range(rows)
