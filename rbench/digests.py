"""Hashes of files, each read once: a file is known again by what the file system says of it.

Size and date of change alone would not do: archives with fixed dates and `cp -p` keep both. The inode and the time of
its own change (ctime) are kept by no ordinary exchange.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SETTLED = 2_000_000_000
"""Nanoseconds that a file must have stayed as it is before its hash is remembered: clocks of file systems tick, and two
changes within one tick look like one."""

Stamp = tuple[int, ...]
_known: dict[tuple[Stamp, str], str] = {}
_noted: ContextVar[dict[Path, Stamp | None] | None] = ContextVar("noted", default=None)


def of_file(path: Path) -> str:
    """sha256 of a file's content, 64 hex digits. Raises OSError where it cannot be read."""

    def read() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return remembered(path, "", read)


def of_files(files: Iterable[Path]) -> str:
    """Hash of the files' names and contents in the order given: 64 hex digits, blind to folders and dates."""
    whole = hashlib.sha256()
    for path in files:
        whole.update(f"{path.name}\0{of_file(path)}\n".encode())
    return whole.hexdigest()


def of_folder(folder: Path) -> str:
    """Hash of all files in a folder and below it, by relative path: 64 hex digits, blind to dates."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(f"{path.relative_to(folder).as_posix()}\0{of_file(path)}\n".encode())
    return whole.hexdigest()


def remembered(path: Path, part: str, read: Callable[[], str]) -> str:
    """`read()`, the hash of some `part` of a file, remembered until the file changes."""
    stamp, now = _stamp(path), time.time_ns()
    found = _known.get((stamp, part))
    settled = found is not None
    if found is None:
        found = read()
        settled = now - stamp[-1] > SETTLED
        if settled:
            _known[stamp, part] = found
    if (noted := _noted.get()) is not None:
        noted[path] = stamp if settled else None
    return found


@contextmanager
def noted() -> Iterator[dict[Path, Stamp | None]]:
    """The files that are hashed inside, and what the file system says of those whose hash is remembered."""
    files: dict[Path, Stamp | None] = {}
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def touched(files: Mapping[Path, Stamp | None]) -> bool:
    """Whether one of `noted` files may have another content now. It costs microseconds a file, and nothing is read."""
    try:
        return any(stamp is None or _stamp(path) != stamp for path, stamp in files.items())
    except OSError:
        return True


def _stamp(path: Path) -> Stamp:
    stat = path.stat()
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
