"""Hashes of files, each read once: a file is known again by what the file system says of it.

Size and date of change alone would not do: archives with fixed dates and `cp -p` keep both. The inode and the time of
its own change (ctime) are kept by no ordinary exchange.
"""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SETTLED = 2_000_000_000
"""Nanoseconds that a file must have stayed as it is before its hash is remembered: clocks of file systems tick, and two
changes within one tick look like one."""

Stamp = tuple[int, ...]
_known: dict[tuple[tuple[Stamp, ...], str], str] = {}
_noted: ContextVar[dict[Path, Stamp | None] | None] = ContextVar("noted", default=None)


def of_file(path: Path) -> str:
    """sha256 of a file's content, 64 hex digits. Raises OSError where it cannot be read."""

    def read() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return remembered([path], "", read)


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


def remembered(paths: Sequence[Path], part: str, read: Callable[[], str]) -> str:
    """`read()`, the hash of some `part` of files, remembered until one of them changes."""
    stamps, now = tuple(map(_stamp, paths)), time.time_ns()
    found = _known.get((stamps, part))
    settled = found is not None
    if found is None:
        found = read()
        settled = tuple(map(_stamp, paths)) == stamps and all(now - stamp[-1] > SETTLED for stamp in stamps)
        if settled:
            _known[stamps, part] = found
    if (noted := _noted.get()) is not None:
        noted.update((path, stamp if settled else None) for path, stamp in zip(paths, stamps, strict=True))
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
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe, say, at which a reader would wait for ever
        raise OSError(0, "no regular file", str(path))
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
