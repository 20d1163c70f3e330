"""Temporary folders in the cache folder, each removed when the process that works in it ends.

    CACHE/tmp/<name>-<random>/      the folder
    CACHE/tmp/<name>-<random>.lock  held by the process that works in it; made before the folder, removed after it

A killed process leaves its folder, but the operating system releases its locks. So a folder whose lock nobody holds is
removed by the next run (`rbench.store.weights.cache.remove_leftovers`). Locks are used instead of process numbers
because other hosts may share the cache.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rbench.errors import ResourceError, StoreError
from rbench.system.below import SafeFolder


def default_cache() -> Path:
    """Return `RBENCH_CACHE`, or `rbench` in the user's cache folder. An empty value counts as unset."""
    by_variable = os.environ.get("RBENCH_CACHE", "")
    if by_variable:
        return Path(by_variable)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rbench"


@contextmanager
def writable_cache(root: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a ResourceError: the cache folder `root` cannot be written."""
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"the cache folder {root} cannot be written ({error.strerror or error}); RBENCH_CACHE=DIR names another"
        ) from error


@contextmanager
def temporary_folder(name: str, root: Path | None = None) -> Iterator[Path]:
    """Make a new folder below the cache folder `root` (None: the default one) and remove it when the block ends.

    Raises:
        ResourceError: the cache folder cannot be written.
    """
    root = root or default_cache()
    with writable_cache(root):
        SafeFolder(root).make_folder(root / "tmp")
        while True:  # the lock is made before the folder, so that no sweep finds a folder without a lock
            lock = FileLock(root / "tmp" / f"{name}-{secrets.token_hex(4)}.lock", timeout=0, thread_local=False)
            with suppress(Timeout):  # a sweep locked the file before we did
                lock.acquire()
                if Path(lock.lock_file).exists():
                    break
                lock.release()  # a sweep removed the file in the meantime: the lock protects nothing
        folder_of(Path(lock.lock_file)).mkdir(mode=0o700)
    try:
        yield folder_of(Path(lock.lock_file))
    finally:
        remove_locked(lock)


def remove_locked(lock: FileLock) -> None:
    """Remove the folder of a held lock, then the lock file. If the folder cannot be removed, the lock file stays too.

    A later sweep then removes both.
    """
    file = Path(lock.lock_file)
    below = SafeFolder(file.parent.parent)
    try:
        with suppress(OSError, StoreError):
            below.remove_tree(folder_of(file), ignore_errors=True)
            if below.kind(folder_of(file)) is None:
                below.remove(file)
    finally:
        lock.release()


def folder_of(file: Path) -> Path:
    """Return the folder that a lock file belongs to."""
    return file.with_suffix("")


def list_locks(root: Path) -> list[Path]:
    """Return the lock files of all temporary folders below the cache folder `root`, held or not."""
    entries = SafeFolder(root).entries(root / "tmp") if root.is_dir() else []
    return [path for path, kind in entries if kind == "file" and path.suffix == ".lock"]


def is_held(file: Path) -> bool:
    """Return whether any process holds a lock file. A file that does not exist is not made."""
    if SafeFolder(file.parent.parent).kind(file) is None:
        return False
    with hold_lock(file) as lock:
        return lock is None


@contextmanager
def hold_lock(file: Path, refused: type[OSError] = OSError) -> Iterator[FileLock | None]:
    """Lock a file for the block; yield None if it is `refused`: another process holds it, or it is another user's."""
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except refused:
        yield None
        return
    try:
        yield lock
    finally:
        lock.release()
