"""Find and remove what killed processes left in the cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rbench.system import scratch
from rbench.system.below import Below

LEFT_ALONE = 7 * 24 * 3600
"""After this many seconds without a write, an unfinished file counts as left by a killed process. It has no lock."""


def sweep(root: Path) -> list[Path]:
    """Remove what killed processes left in the cache folder `root`; return what was removed.

    These are folders whose lock nobody holds, and unfinished prepared files, in which nothing was written for
    `LEFT_ALONE` seconds.
    """
    removed = []
    for file in scratch.locks(root):
        with _held(file) as lock:
            if lock is not None:
                place = scratch.folder_of(file)
                was_there = place.is_dir()
                scratch.remove(lock)
                removed += [place] if was_there else []
    for file in _parts(root):
        removed.append(file)
        with suppress(OSError):
            Below(root).remove(file)
    return [place for place in removed if not place.exists()]


def left(root: Path) -> list[Path]:
    """List what `sweep` would remove."""
    folders = (scratch.folder_of(file) for file in scratch.locks(root) if not scratch.is_held(file))
    return [*(place for place in folders if place.is_dir() and not place.is_symlink()), *_parts(root)]


def last_written(path: Path) -> float:
    """Return when a folder or file was last written, in seconds since the epoch. Links are not followed."""
    newest = path.lstat().st_mtime
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                newest = max(newest, (Path(parent) / name).lstat().st_mtime)
    return newest


@contextmanager
def _held(file: Path) -> Iterator[FileLock | None]:
    """Lock a file for the block; yield None if another process holds it."""
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except (Timeout, OSError):
        yield None
        return
    try:
        yield lock
    finally:
        lock.release()


def _parts(root: Path) -> list[Path]:
    """List unfinished files of edits, rows and translations."""
    found = [*(root / "prepared").glob("tmp*.part"), *(root / "prepared" / "translations").glob("*/*.tmp")]
    limit = time.time() - LEFT_ALONE
    return sorted(file for file in found if file.is_file() and not file.is_symlink() and last_written(file) < limit)
