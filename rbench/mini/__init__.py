"""The embedded world: a small English-like language of our own, with tasks, an oracle, and lexical resources.

See docs/mini-world.md. The package imports quickly, and needs no network and no files outside of itself. Rows are kept
on disk, because every process would spend seconds on generating them.

    CACHE/prepared/<generator>-<digits>.json    a line with the sha256 of the rest, then the rows as JSON

The digits are a hash of all files of this package (code and word lists) and of Python's version, whose random numbers
decide the rows. So edited code never reads rows that earlier code made. A file that does not match its sha256 is made
again. If the cache folder cannot be read or written, rows are generated without it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from rbench.errors import ResourceError, StoreError
from rbench.mini.generators import SIZES, Row, generate
from rbench.mini.oracle import oracle
from rbench.system.below import SafeFolder
from rbench.system.scratch import default_cache

__all__ = [
    "GENERATORS",
    "Row",
    "contrast_rows",
    "fingerprint",
    "oracle",
    "rows",
    "splits",
]

GENERATORS = tuple(SIZES)
"""Names of the generators, the values of `generator:` in a task file."""
OTHER_LANGUAGES = {"mini-ranking": "rbench.mini.ranking", "mini-triples": "rbench.mini.triples"}
"""Generators that are modules of their own, with `SPLITS` and `generate`, which most tasks do not need."""
Rows = TypeVar("Rows")

log = logging.getLogger("rbench")


def splits(generator: str) -> tuple[str, ...]:
    """Return the names of a generator's splits. ResourceError for an unknown generator."""
    if generator in OTHER_LANGUAGES:
        return tuple(importlib.import_module(OTHER_LANGUAGES[generator]).SPLITS)
    if generator not in SIZES:
        known = ", ".join((*GENERATORS, *OTHER_LANGUAGES))
        raise ResourceError(f"The embedded world has no generator {generator!r}; it has {known}.")
    return tuple(SIZES[generator])


def rows(generator: str, split: str) -> list[Row]:
    """Return the rows of a generated task or corpus: its text columns, and `label` (int) or `score` (float, 0..5).

    The rows are the same on every machine. ResourceError for an unknown generator or split.
    """
    if split not in splits(generator):
        raise ResourceError(f"{generator} has no split {split!r}; it has {', '.join(splits(generator))}.")
    return [dict(row) for row in _rows_by_split(generator)[split]]


def contrast_rows(generator: str) -> list[Row]:
    """Return the contrast set of a generated task, a row for each edit; see `rbench.mini.contrast`.

    The rows are the same on every machine. ResourceError for a generator without a contrast set.
    """
    from rbench.mini.contrast import WITH_CONTRAST_SET

    if generator not in WITH_CONTRAST_SET:
        raise ResourceError(
            f"The embedded world has no contrast set of {generator!r}; it has {', '.join(WITH_CONTRAST_SET)}."
        )
    return [dict(row) for row in _contrast_rows(generator)]


@cache
def _contrast_rows(generator: str) -> list[Row]:
    from rbench.mini.contrast import contrast_rows

    return read_or_make(f"{generator}-contrast", lambda: contrast_rows(generator, _rows_by_split(generator)))


@cache
def _rows_by_split(generator: str) -> dict[str, list[Row]]:
    if generator in OTHER_LANGUAGES:
        return read_or_make(generator, importlib.import_module(OTHER_LANGUAGES[generator]).generate)
    return read_or_make(generator, lambda: generate(generator))


@cache
def fingerprint(generator: str | None = None) -> str:
    """Return a hash (64 hex digits) of all rows of a generator, or of all generators."""
    names = GENERATORS if generator is None else (generator,)
    digest = hashlib.sha256()
    for name in names:
        for split in splits(name):
            digest.update(json.dumps([name, split, _rows_by_split(name)[split]], sort_keys=True).encode())
    return digest.hexdigest()


# ---------------------------------------------------------------------------------------------------- rows on disk


def _hash_of_code() -> str:
    """Hash the paths and contents of all files of this package, and Python's version."""
    package = Path(__file__).parent
    digest = hashlib.sha256(platform.python_version().encode())
    for file in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".yaml")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{file.relative_to(package).as_posix()} {content}".encode())
    return digest.hexdigest()


_CODE = _hash_of_code()
"""The hash at import time, because code that is edited later is not the code that runs in this process."""


def read_or_make(name: str, make: Callable[[], Rows]) -> Rows:
    """Return the rows called `name` (`mini-...`): read from the cache, or else made with `make` and kept there.

    The rows must consist of dictionaries with str keys, lists, str, int and float, which JSON returns unchanged.
    """
    folder = SafeFolder(default_cache() / "prepared")
    path = folder.root / f"{name}-{_CODE[:16]}.json"
    with suppress(OSError, StoreError):
        digest, _, body = folder.read(path).partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() == digest:
            kept_rows: Rows = json.loads(body)
            with suppress(OSError):  # the cache may be read-only
                os.utime(path)
            return kept_rows
        log.warning("%s is damaged; it is made again", path)
    made_rows = make()
    if _hash_of_code() == _CODE:  # the word lists may have been edited before `make` read them
        body = json.dumps(made_rows, ensure_ascii=False).encode()
        with suppress(OSError, StoreError):
            folder.replace(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    return made_rows
