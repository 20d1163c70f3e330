"""Compares a text with the one that an attack made of it, word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile

_LONG = 1000
"""Words and spaces of a text whose common beginning and end are set aside before it is compared."""


def changes(original: str, perturbed: str) -> Iterator[tuple[str, str]]:
    """Yield pairs (old, new) that make up the two texts in order. Nothing changed where old equals new.

    Words and the spaces between them are compared, so all old parts joined give `original`, all new ones `perturbed`.

    Where most words stand at their old places, as after an attack that replaces words, they are compared place by
    place: looking for the longest common parts takes time with the square of a text's length.
    """
    old, new = (re.findall(r"\s+|[^\s]+", text) for text in (original, perturbed))
    if len(old) == len(new) and 2 * sum(one == other for one, other in zip(old, new, strict=True)) > len(old):
        for same, group in groupby(zip(old, new, strict=True), key=lambda pair: pair[0] == pair[1]):
            if same:
                text = "".join(one for one, _ in group)
                yield text, text
            else:
                yield from group
        return
    if len(old) < _LONG:
        yield from _aligned(old, new)
        return
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    yield from _shared(old[:head])
    yield from _aligned(old[head : len(old) - tail], new[head : len(new) - tail])
    yield from _shared(old[len(old) - tail :])


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _shared(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    if words:
        yield "".join(words), "".join(words)


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace" and j - i == m - k:
            yield from zip(old[i:j], new[k:m], strict=True)
        else:
            yield "".join(old[i:j]), "".join(new[k:m])


def marked(original: str, perturbed: str) -> str:
    """Return the change as plain text: `a [[good]] -> [[fine]] film`."""
    parts = [old if old == new else f"[[{old}]] -> [[{new}]]" for old, new in changes(original, perturbed)]
    return "".join(parts)
