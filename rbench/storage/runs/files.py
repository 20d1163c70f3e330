"""Read and replace files so that a crash leaves no file half written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rbench.errors import StoreError
from rbench.system.below import WHOLE, Below

UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.tmp$")
"""The end of the name of a file that is being written. If its process is killed, the file stays."""


@contextmanager
def as_store_error(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a StoreError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: Path, below: Below | None = None, most: int = WHOLE) -> bytes | None:
    """Return the content of a file of at most so many bytes, or None if there is no file.

    Args:
        below: the folder below which no link is followed; None: the file's own folder, where the user named the file.

    Raises:
        StoreError: it cannot be read, is larger, or is no regular file.
    """
    with _reading(path):
        return (below or Below(path.parent)).read(path, most)
    return None


def read_lined(path: Path, below: Below) -> bytes | None:
    """Return the content of a file of lines, of any size, or None if there is no file. Raises StoreError as `read`."""
    with _reading(path):
        return below.read_lined(path)
    return None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a StoreError, except that there is no file."""
    try:
        yield
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        file = next((folder for folder in path.parents if folder.is_file()), path.parent)
        raise StoreError(f"{file} is a file. Name the folder that `rbench run` wrote.") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from error


def write(path: Path, content: bytes, below: Below | None = None) -> None:
    """Replace the file in one step: after a crash it holds the old content or the new content, never a part.

    Args:
        below: as for `read`.
    """
    with as_store_error(path):
        (below or Below(path.parent)).replace(path, content, sync=True)


def unused(path: Path) -> Path:
    """Return `path`, or the first of `path-2`, `path-3` ... if it exists."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def beside(path: Path, name: str) -> Path:
    """Return the path of a file or folder beside another one, which may be the current folder."""
    return (path if path.name not in ("", "..") else path.resolve()).with_name(name)


@contextmanager
def growing(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder beside a new one. It becomes `folder` at the end, and is removed if anything goes wrong.

    Raises StoreError if `folder` cannot be made, for instance because it is there and not empty.
    """
    with as_store_error(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = unused(beside(folder, f".{folder.resolve().name}.unfinished"))
    try:
        yield unfinished
        with as_store_error(folder):
            unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def cut_torn_line(handle: int, block: int = 65536) -> None:
    """Cut a file after its last newline, reading backwards from its end."""
    end = size = os.fstat(handle).st_size
    while end:
        start = max(0, end - block)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
