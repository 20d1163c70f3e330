"""Folders that last no longer than the process that works in them, in the cache folder.

    CACHE/tmp/<name>-<random>/      the folder
    CACHE/tmp/<name>-<random>.lock  held by the process that works in it; made before the folder, removed after it

A process that is killed removes nothing, but the system lets go of its locks, however it died: a folder whose lock
nobody holds is swept (`rbench.storage.weights.leftovers`). A process number would not do: on another host that shares
the cache it means nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rbench.errors import ResourceError


def default_cache() -> Path:
    """`RBENCH_CACHE`, or `rbench` under the user's cache folder; an empty value counts as unset."""
    named = os.environ.get("RBENCH_CACHE", "")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rbench"


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Say of an error of the system that the cache folder `root` cannot be written."""
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"the cache folder {root} cannot be written ({error.strerror or error}); RBENCH_CACHE=DIR names another"
        ) from error


@contextmanager
def folder(name: str, root: Path | None = None) -> Iterator[Path]:
    """A new folder below the cache folder `root` (None: the default one), gone when the block ends.

    Raises ResourceError where the cache folder cannot be written.
    """
    root = root or default_cache()
    with writing(root):
        lock = _claim(root / "tmp", name)
        folder_of(Path(lock.lock_file)).mkdir(mode=0o700)
    try:
        yield folder_of(Path(lock.lock_file))
    finally:
        remove(lock)


def _claim(parent: Path, name: str) -> FileLock:
    """A lock on a name that nobody has. It is there before the folder, so that no sweep meets the folder alone."""
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        lock = FileLock(parent / f"{name}-{secrets.token_hex(4)}.lock", timeout=0, thread_local=False)
        with suppress(Timeout):  # a sweep took it, which met it between its making and its locking
            lock.acquire()
            if Path(lock.lock_file).exists():
                return lock
            lock.release()  # a sweep removed it in that moment: it guards nothing


def remove(lock: FileLock) -> None:
    """Remove the folder of a lock that is held, then the lock, which stays where its folder does: for a sweep."""
    file = Path(lock.lock_file)
    try:
        shutil.rmtree(folder_of(file), ignore_errors=True)
        if not folder_of(file).exists():
            with suppress(OSError):
                file.unlink(missing_ok=True)
    finally:
        lock.release()


def folder_of(file: Path) -> Path:
    """The folder that a lock file stands for."""
    return file.with_suffix("")


def locks(root: Path) -> list[Path]:
    """The lock files of all folders here, held or not."""
    return sorted((root / "tmp").glob("*.lock"))


def is_held(file: Path) -> bool:
    """Whether a process, this one or another, holds a lock file. Makes none where there is none."""
    if not file.exists():
        return False
    try:
        with FileLock(file, timeout=0):
            return False
    except (Timeout, OSError):  # an OSError: it is another user's
        return True
