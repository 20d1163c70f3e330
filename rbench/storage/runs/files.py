"""Read and replace files so that a crash leaves no file half written."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rbench.errors import StoreError

UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.tmp$")
"""The end of the name of a file that is being written. If its process is killed, the file stays."""


@contextmanager
def as_store_error(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a StoreError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is no file. Raises StoreError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        file = next((folder for folder in path.parents if folder.is_file()), path.parent)
        raise StoreError(f"{file} is a file. Name the folder that `rbench run` wrote.") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from error


def write(path: Path, content: bytes) -> None:
    """Replace the file in one step: after a crash it holds the old content or the new content, never a part."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")  # others may write the same file
    with as_store_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)


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


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # other systems cannot open a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
