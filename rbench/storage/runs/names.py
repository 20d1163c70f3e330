"""Make readable folder names that are safe on every file system."""

from __future__ import annotations

import re
from hashlib import sha256

_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]")
_LONGEST = 120
"""Maximum length, because file systems limit it. A longer name is cut and completed with a hash."""


def folder_name(part: str) -> str:
    """Turn one readable part of a job into a folder name. Percent-encoding keeps different parts different.

    >>> folder_name("bertattack[max_words=10]")
    'bertattack%5Bmax_words=10%5D'
    """
    name = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), part)
    if not name.strip("."):  # "", "." and ".." would name other folders
        name = name.replace(".", "%2E") or "%"
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{sha256(part.encode()).hexdigest()[:12]}"
    return name
