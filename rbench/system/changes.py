"""Compares a text with the one that an attack made of it, word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator


def changes(original: str, perturbed: str) -> Iterator[tuple[str, str]]:
    """Yield pairs (old, new) that make up the two texts in order. Nothing changed where old equals new.

    Words and the spaces between them are compared, so all old parts joined give `original`, all new ones `perturbed`.
    """
    old, new = (re.findall(r"\s+|[^\s]+", text) for text in (original, perturbed))
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace" and j - i == m - k:
            yield from zip(old[i:j], new[k:m], strict=True)
        else:
            yield "".join(old[i:j]), "".join(new[k:m])


def marked(original: str, perturbed: str) -> str:
    """Return the change as plain text: `a [[good]] -> [[fine]] film`."""
    parts = [old if old == new else f"[[{old}]] -> [[{new}]]" for old, new in changes(original, perturbed)]
    return "".join(parts)
