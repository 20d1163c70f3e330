"""Reads the text of a file, which is UTF-8 and may be compressed by gzip, and checks text that JSON escaped."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from rbench.errors import ResourceError

_SURROGATE = re.compile("[\ud800-\udfff]")


def text_of(path: Path) -> str:
    """Return the whole text, without a byte order mark.

    Raises:
        ResourceError: the file is not gzip though its name says so, or is not UTF-8; names `file:line`.
    """
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ResourceError(f"{path}: cannot be unpacked ({error}); write it again with gzip") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ResourceError(f"{path}:{line}: not UTF-8 ({error.reason}); save the file as UTF-8") from error


def check_unicode(text: str, what: str) -> None:
    """Raise ResourceError, with `what` at its head, if JSON's escapes made a text that cannot be encoded as UTF-8."""
    if not text.isascii() and _SURROGATE.search(text):
        raise ResourceError(f"{what} has half a character (a lone surrogate), which is not valid Unicode")
