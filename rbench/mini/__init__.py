"""The embedded world: a small English-like language of our own, with tasks, an oracle, and lexical resources.

See docs/mini-world.md. The package imports quickly, and needs no network and no files outside of itself. Rows that were
made once are kept in the cache folder (`rbench.mini.kept`).
"""

from __future__ import annotations

import hashlib
import json
from functools import cache

from rbench.errors import ResourceError
from rbench.mini.contrast import EDITED
from rbench.mini.contrast import contrast_rows as _contrast
from rbench.mini.generators import SIZES, Row, generate
from rbench.mini.kept import keep
from rbench.mini.oracle import oracle

__all__ = ["EDITED", "GENERATORS", "Row", "contrast_rows", "fingerprint", "oracle", "rows", "splits"]

GENERATORS = tuple(SIZES)
"""Names of the generators, the values of `generator:` in a task file."""


def splits(generator: str) -> tuple[str, ...]:
    """Return the names of a generator's splits. ResourceError for an unknown generator."""
    if generator not in SIZES:
        raise ResourceError(f"The embedded world has no generator {generator!r}; it has {', '.join(GENERATORS)}.")
    return tuple(SIZES[generator])


def rows(generator: str, split: str) -> list[Row]:
    """Return the rows of a generated task or corpus: its text columns, and `label` (int) or `score` (float, 0..5).

    The rows are the same on every machine. ResourceError for an unknown generator or split.
    """
    if split not in splits(generator):
        raise ResourceError(f"{generator} has no split {split!r}; it has {', '.join(SIZES[generator])}.")
    return [dict(row) for row in _generated(generator)[split]]


def contrast_rows(generator: str) -> list[Row]:
    """Return the contrast set of a generated task, a row for each edit; see `rbench.mini.contrast`.

    The rows are the same on every machine. ResourceError for a generator without a contrast set.
    """
    if generator not in EDITED:
        raise ResourceError(f"The embedded world has no contrast set of {generator!r}; it has {', '.join(EDITED)}.")
    return [dict(row) for row in _edited(generator)]


@cache
def _edited(generator: str) -> list[Row]:
    return keep(f"{generator}-contrast", lambda: _contrast(generator, _generated(generator)))


@cache
def _generated(generator: str) -> dict[str, list[Row]]:
    return keep(generator, lambda: generate(generator))


@cache
def fingerprint(generator: str | None = None) -> str:
    """Return a hash (64 hex digits) of all rows of a generator, or of all generators."""
    names = GENERATORS if generator is None else (generator,)
    digest = hashlib.sha256()
    for name in names:
        for split in splits(name):
            digest.update(json.dumps([name, split, _generated(name)[split]], sort_keys=True).encode())
    return digest.hexdigest()
