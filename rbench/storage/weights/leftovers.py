"""What killed processes have left, here and in the system's temporary folder, and its removal."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rbench.system import scratch

LEFT_ALONE = 7 * 24 * 3600
"""Seconds without a write after which something counts as left, where no lock says whether it is."""

_EARLIER = re.compile(r"[0-9a-f]{8}-[a-z0-9_]{8}")
_EARLIER_IN_SYSTEM = re.compile(r"rbench-(finetune|train|attack|prepared)-[a-z0-9_]{8}")


def sweep(root: Path) -> list[Path]:
    """Remove the folders that no living process works in; returns what was removed.

    Below the cache folder `root` these are the folders of killed processes, prepared files that were never finished,
    and folders of versions that had no locks there. Those versions worked in the system's temporary folder, too: there
    it is this user's folders with names that no other program gives. Where no lock says whether a process works with
    something, it counts as left when nothing was written in it for `LEFT_ALONE`.
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
                shutil.rmtree(place, ignore_errors=True)
    for place in _in_system():
        removed.append(place)
        shutil.rmtree(place, ignore_errors=True)
    for file in _parts(root):
        removed.append(file)
        with suppress(OSError):
            file.unlink()
    return [place for place in removed if not place.exists()]


def left(root: Path) -> list[Path]:
    """What `sweep` would remove below the cache folder."""
    ours = (scratch.folder_of(file) for file in scratch.locks(root) if not scratch.is_held(file))
    earlier = (
        place
        for place in _of_earlier_versions(root)
        if not any(scratch.is_held(file) for file in _job_locks(root, place))
    )
    folders = [place for place in (*ours, *earlier) if place.is_dir() and not place.is_symlink()]
    return [*folders, *_parts(root)]


def last_written(path: Path) -> float:
    """When something was last written in a folder or a file, in seconds since the epoch; links are not followed."""
    newest = path.lstat().st_mtime
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):  # it goes while we look
                newest = max(newest, (Path(parent) / name).lstat().st_mtime)
    return newest


@contextmanager
def _held(*files: Path) -> Iterator[list[FileLock | None]]:
    """Locks on all files, None for one that another process holds."""
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
    """Folders that were made without a lock of their own, by versions that held the lock of the job instead."""
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
    """Files that were never finished: of edits, and of translations."""
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
