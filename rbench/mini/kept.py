"""Rows of the embedded world on disk: making them takes seconds, and each process would make them again.

    CACHE/prepared/<generator>-<digits>.json    a line with the sha256 of the rest, then the rows as JSON

The digits are a hash of all files of this package, code and word lists, and of Python's version, whose random numbers
decide the rows. So code that was edited finds nothing that earlier code has made. A file that is not what was written
is made again. Where the cache folder cannot be read or written, rows are made as if there were none.
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
    """Of all files of this package, by their paths in it, and of Python's version."""
    here = Path(__file__).parent
    digest = hashlib.sha256(platform.python_version().encode())
    for file in sorted(path for path in here.rglob("*") if path.suffix in (".py", ".yaml")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{file.relative_to(here).as_posix()} {content}".encode())
    return digest.hexdigest()


_CODE = _hash_of_code()
"""Computed when the code is imported: a file that is edited later is not the code that runs here."""


def keep(name: str, make: Callable[[], Rows]) -> Rows:
    """What `make` returns, rows called `name` (`mini-...`): read where they were kept, else made and kept.

    They must be of dictionaries with str keys, lists, str, int and float, which JSON gives back as they were.
    """
    path = default_cache() / "prepared" / f"{name}-{_CODE[:16]}.json"
    body = _read(path)
    if body is not None:
        found: Rows = json.loads(body)
        return found
    made = make()
    if _hash_of_code() == _CODE:  # word lists are read when they are needed, perhaps after they were edited
        with suppress(OSError):
            _write(path, json.dumps(made, ensure_ascii=False).encode())
    return made


def _read(path: Path) -> bytes | None:
    """The rows in a file, as they were written; None where there is no such file, or another content."""
    try:
        if not path.is_file():
            return None
        digest, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(body).hexdigest().encode() != digest:
        log.warning("%s is damaged; it is made again", path)
        return None
    with suppress(OSError):  # a cache that may only be read
        os.utime(path)
    return body


def _write(path: Path, body: bytes) -> None:
    """Write all of a file or nothing. Several processes may do so at once: each writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".part", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            file.close()
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
