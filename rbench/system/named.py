"""Open the files that a user names: suites, tables, baselines, answers, code. By mistake or not, they may be anything.

A FIFO waits for its other end for ever, a device never ends, and a small compressed file may become larger than the
memory. So each such file is opened here, which opens regular files alone, and reads no more than a limit. Links are
followed, because the user named them. What lies in a RUN or in the cache is opened by `system.below`.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from rbench.system.below import LINE, MEGABYTE, WHOLE_BYTES

TABLE_BYTES = 2048 * MEGABYTE
"""Most bytes of a table that is read in one piece."""
RATIO, ALWAYS_BYTES = 250, 16 * MEGABYTE
"""Most bytes that a compressed byte may become, and what any compressed file may become."""


def read(path: Path, most: int = WHOLE_BYTES, *, packed: bool | None = None) -> bytes:
    """Return the content of a regular file, decompressed where it is gzip.

    Args:
        most: bytes of the content.
        packed: whether it is gzip; None: as its first bytes say.

    Raises:
        OSError: it cannot be opened, is no regular file, has more bytes, or cannot be decompressed. `strerror` says so.
    """
    with open_file(path, most, packed=packed) as file:
        return file.read()


def read_text(path: Path, most: int = WHOLE_BYTES) -> str:
    """Return the text of a file, as `read` does. Raises UnicodeDecodeError, too, where it is not UTF-8."""
    return read(path, most).decode("utf-8-sig")


def iter_lines(path: Path, *, packed: bool | None = None) -> Iterator[bytes]:
    """Yield the lines of a file of any size, decompressed where it is gzip. Each has at most `below.LINE` bytes.

    Raises OSError as `read` does.
    """
    with open_file(path, None, packed=packed) as file:
        while line := file.readline(LINE + 1):
            if len(line) > LINE:
                raise _refusal(path, errno.EFBIG, f"it has a line of more than {LINE // MEGABYTE} MB")
            yield line


@contextmanager
def open_file(path: Path, most: int | None, *, packed: bool | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading, decompressed where it is gzip.

    Args:
        most: bytes of the content; None: any number, of a compressed file at most RATIO times its size.
        packed: as of `read`.

    Raises OSError as `read` does, also where more is read later.
    """
    # Without O_NONBLOCK, opening a FIFO waits for its other end.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(path, errno.EINVAL, "it is no regular file, but a device, a FIFO or a socket")
        packed = file.peek(2)[:2] == b"\x1f\x8b" if packed is None else packed
        limit = max(ALWAYS_BYTES, RATIO * status.st_size) if packed else None
        limit = limit if most is None else min(most, limit or most)
        source: Any = gzip.GzipFile(fileobj=file) if packed else file
        yield cast(BinaryIO, source if limit is None else io.BufferedReader(_BoundedFile(source, limit, path)))


class _BoundedFile(io.RawIOBase):
    """A file that refuses to be read beyond a limit."""

    def __init__(self, source: BinaryIO, most: int, path: Path) -> None:
        self._source, self._left, self._most, self._path = source, most, most, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            content = self._source.read(min(len(buffer), self._left + 1))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _refusal(self._path, errno.EINVAL, f"it cannot be decompressed ({error})") from error
        self._left -= len(content)
        if self._left < 0:
            raise _refusal(self._path, errno.EFBIG, f"it has more than {self._most // MEGABYTE} MB")
        buffer[: len(content)] = content
        return len(content)


def _refusal(path: Path, number: int, why: str) -> OSError:
    return OSError(number, why, str(path))
