"""Keep generated rows of the embedded world on disk, because every process would spend seconds on generating them.

    CACHE/prepared/<generator>-<digits>.json    a line with the sha256 of the rest, then the rows as JSON

The digits are a hash of all files of this package (code and word lists) and of Python's version, whose random numbers
decide the rows. So edited code never reads rows that earlier code made. A file that does not match its sha256 is made
again. If the cache folder cannot be read or written, rows are generated without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from rbench.system.scratch import default_cache

Rows = TypeVar("Rows")

log = logging.getLogger("rbench")


def _hash_of_code() -> str:
    """Hash the paths and contents of all files of this package, and Python's version."""
    here = Path(__file__).parent
    digest = hashlib.sha256(platform.python_version().encode())
    for file in sorted(path for path in here.rglob("*") if path.suffix in (".py", ".yaml")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{file.relative_to(here).as_posix()} {content}".encode())
    return digest.hexdigest()


_CODE = _hash_of_code()
"""The hash at import time, because code that is edited later is not the code that runs in this process."""


def keep(name: str, make: Callable[[], Rows]) -> Rows:
    """Return the rows called `name` (`mini-...`): read from the cache, or else made with `make` and kept there.

    The rows must consist of dictionaries with str keys, lists, str, int and float, which JSON returns unchanged.
    """
    path = default_cache() / "prepared" / f"{name}-{_CODE[:16]}.json"
    body = _read(path)
    if body is not None:
        found: Rows = json.loads(body)
        return found
    made = make()
    if _hash_of_code() == _CODE:  # the word lists may have been edited before `make` read them
        with suppress(OSError):
            _write(path, json.dumps(made, ensure_ascii=False).encode())
    return made


def _read(path: Path) -> bytes | None:
    """Read the rows in a file as JSON; None if there is no file, or if it is unreadable or damaged."""
    try:
        if not path.is_file():
            return None
        digest, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(body).hexdigest().encode() != digest:
        log.warning("%s is damaged; it is made again", path)
        return None
    with suppress(OSError):  # the cache may be read-only
        os.utime(path)
    return body


def _write(path: Path, body: bytes) -> None:
    """Write a file completely or not at all. Several processes may do so at once, because all write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".part", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            file.close()
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
