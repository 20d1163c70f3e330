"""Normalises a text before a classifier reads it: a defence against some kinds of noise, at a price that is measured.

It resolves right-to-left overrides, takes Unicode's compatibility forms apart and together (NFKC), removes characters
that format and show nothing (category Cf, such as zero-width letters), and joins white space. It leaves the letters of
other scripts that look like Latin ones, because texts in those scripts need them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

VERSION = 1

_RIGHT_TO_LEFT = re.compile("\u202e([^\u202c\u202e]*)\u202c")


@cache
def _list_invisible() -> dict[int, None]:
    """Return all characters of the category Cf. Whoever imports this module need not look through all of Unicode."""
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"}


def normalise(text: str) -> str:
    """Return the text without compatibility forms, invisible characters, and repeated white space."""
    # Overrides come first: NFKC leaves them, and removing them alone would leave the letters in their hidden order.
    resolved = _RIGHT_TO_LEFT.sub(lambda override: override[1][::-1], text)
    return " ".join(unicodedata.normalize("NFKC", resolved).translate(_list_invisible()).split())
