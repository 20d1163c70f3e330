"""Find and remove what killed processes left, in the cache and in the system's temporary folder."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rbench.system import scratch
from rbench.system.below import Below

LEFT_ALONE = 7 * 24 * 3600
"""After this many seconds without a write, something without a lock counts as left by a killed process."""

_EARLIER = re.compile(r"[0-9a-f]{8}-[a-z0-9_]{8}")
_EARLIER_IN_SYSTEM = re.compile(r"rbench-(finetune|train|attack|prepared)-[a-z0-9_]{8}")


def sweep(root: Path) -> list[Path]:
    """Remove what killed processes left; return what was removed.

    In the cache folder `root`, removes folders of killed processes, unfinished prepared files, and folders of earlier
    versions, which had no lock of their own. Earlier versions also worked in the system's temporary folder: there,
    removes this user's folders with names that only rbench gives. If no lock says whether a process uses something, it
    counts as left when nothing was written in it for `LEFT_ALONE` seconds.
    """
    removed = []
    for file in scratch.locks(root):
        with _held(file) as (lock,):
            if lock is not None:
                place = scratch.folder_of(file)
                was_there = place.is_dir()
                scratch.remove(lock)
                removed += [place] if was_there else []
    for place in _of_earlier_versions(root):
        with _held(*_job_locks(root, place)) as held:
            if None not in held:
                removed.append(place)
                Below(root).remove_tree(place, ignore_errors=True)
    for place in _in_system():
        removed.append(place)
        Below(place.parent).remove_tree(place, ignore_errors=True)
    for file in _parts(root):
        removed.append(file)
        with suppress(OSError):
            Below(root).remove(file)
    return [place for place in removed if not place.exists()]


def left(root: Path) -> list[Path]:
    """List what `sweep` would remove from the cache folder."""
    ours = (scratch.folder_of(file) for file in scratch.locks(root) if not scratch.is_held(file))
    earlier = (
        place
        for place in _of_earlier_versions(root)
        if not any(scratch.is_held(file) for file in _job_locks(root, place))
    )
    folders = [place for place in (*ours, *earlier) if place.is_dir() and not place.is_symlink()]
    return [*folders, *_parts(root)]


def last_written(path: Path) -> float:
    """Return when a folder or file was last written, in seconds since the epoch. Links are not followed."""
    newest = path.lstat().st_mtime
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                newest = max(newest, (Path(parent) / name).lstat().st_mtime)
    return newest


@contextmanager
def _held(*files: Path) -> Iterator[list[FileLock | None]]:
    """Lock all files; yield a lock for each, or None if another process holds it."""
    with ExitStack() as stack:
        found: list[FileLock | None] = []
        for file in files:
            lock = FileLock(file, timeout=0)
            try:
                stack.enter_context(lock)
                found.append(lock)
            except (Timeout, OSError):
                found.append(None)
        yield found


def _of_earlier_versions(root: Path) -> list[Path]:
    """List folders without a lock of their own. Earlier versions made them while holding the lock of the job."""
    return [
        place
        for place in sorted((root / "tmp").glob("????????-????????"))
        if _EARLIER.fullmatch(place.name)
        and place.is_dir()
        and not place.is_symlink()
        and not place.with_name(f"{place.name}.lock").exists()
    ]


def _job_locks(root: Path, place: Path) -> list[Path]:
    return sorted((root / "locks").glob(f"{place.name[:8]}*.lock"))


def _parts(root: Path) -> list[Path]:
    """List unfinished files of edits, rows and translations."""
    found = [*(root / "prepared").glob("tmp*.part"), *(root / "prepared" / "translations").glob("*/*.tmp")]
    limit = time.time() - LEFT_ALONE
    return sorted(file for file in found if file.is_file() and not file.is_symlink() and last_written(file) < limit)


def _in_system() -> list[Path]:
    if not hasattr(os, "getuid"):
        return []
    found = []
    for place in sorted(Path(tempfile.gettempdir()).glob("rbench-*")):
        with suppress(OSError):
            own = place.lstat()
            if (
                _EARLIER_IN_SYSTEM.fullmatch(place.name)
                and stat.S_ISDIR(own.st_mode)
                and own.st_uid == os.getuid()
                and last_written(place) < time.time() - LEFT_ALONE
            ):
                found.append(place)
    return found
