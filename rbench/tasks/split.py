"""The seeded rules that divide unsplit data. Changing a rule changes the data of every task that it divides.

A permutation is numpy's `Generator(PCG64(seed)).permutation(n)` of the row numbers 0..n-1 of a source, as published,
before any row is left out. Within a split rows keep the order of their source.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

HOLDOUT_SUFFIX = "[holdout]"
"""Suffix of a split's source: `train[holdout]` is the seeded part of `train` that is held out for validation."""

HOLDOUT_SHARE = 0.1
MAX_HOLDOUT = 5000
HOLDOUT_SEED = 0


def draw_permutation(rows: int, seed: int) -> list[int]:
    """Return the row numbers 0..rows-1 in seeded random order."""
    return [int(i) for i in np.random.Generator(np.random.PCG64(seed)).permutation(rows)]


def divide_in_three(
    rows: int, *, seed: int, validation: float, test: float, test_rows: Collection[int] | None = None
) -> dict[str, list[int]]:
    """Return row numbers by split for `schema.Unsplit`. Each row is in exactly one of train, validation and test.

    The test split is `test_rows` if given, otherwise the first floor(test * rows) numbers of the permutation. Of the
    remaining numbers, in the permutation's order, the first floor(validation * remaining) are validation and the
    others are train.

    Raises:
        ValueError: a test row is not a row number.
    """
    # Rows of the source before any is left out, so that rules of cleaning never move a row to another split.
    order = draw_permutation(rows, seed)
    if test_rows is None:
        tested = set(order[: int(test * rows)])
    else:
        tested = set(test_rows)
        beyond = [row for row in tested if not 0 <= row < rows]
        if beyond:
            raise ValueError(f"row {beyond[0]} is listed, but there are {rows} rows, counted from 0")
    remaining = [row for row in order if row not in tested]
    num_validation = int(validation * len(remaining))
    return {
        "train": sorted(remaining[num_validation:]),
        "validation": sorted(remaining[:num_validation]),
        "test": sorted(tested),
    }


def draw_holdout(rows: int) -> list[int]:
    """Return the rows of a training source that are held out for validation.

    They are the first tenth of the permutation with seed 0, at most 5,000 rows.
    """
    return sorted(draw_permutation(rows, HOLDOUT_SEED)[: min(int(HOLDOUT_SHARE * rows), MAX_HOLDOUT)])


def strip_holdout(name: str) -> tuple[str, bool]:
    """Return a split's source without the suffix `[holdout]`, and whether it had the suffix."""
    return (name.removesuffix(HOLDOUT_SUFFIX), True) if name.endswith(HOLDOUT_SUFFIX) else (name, False)


def select_rows(name: str, named_sources: Collection[str], rows: int) -> range | list[int]:
    """Return the row numbers of the split source `name`, which has `rows` rows.

    `train[holdout]` means the held-out rows. `train` means all rows, or the other rows if the task also names
    `train[holdout]`. `named_sources` holds all sources that the task names.
    """
    source, is_holdout = strip_holdout(name)
    if is_holdout:
        return draw_holdout(rows)
    if source + HOLDOUT_SUFFIX in named_sources:
        held_rows = set(draw_holdout(rows))
        return [row for row in range(rows) if row not in held_rows]
    return range(rows)
