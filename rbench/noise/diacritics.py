"""Diacritics: a letter gets an accent, or loses the one that it has."""

from __future__ import annotations

import unicodedata
from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 2

_MARKS = "\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COMPOSED = {one: [unicodedata.normalize("NFC", one + mark) for mark in _MARKS] for one in _LETTERS}
ACCENTED = {one: own for one, made in _COMPOSED.items() if (own := [each for each in made if len(each) == 1])}
"""By letter, the letters with one accent."""
_PLAIN = {accented: one for one, made in ACCENTED.items() for accented in made}


class Diacritics(NoiseKind):
    title = "a letter with an accent, or without the one that it had"
    unit = "letters"
    only_for = "Latin letters"
    # A letter that is followed by a mark of its own (\p{M}) is left.
    places = matches(f"[{''.join((*ACCENTED, *_PLAIN))}](?!\\p{{M}})")

    def put(self, found: str, rng: Random) -> str:
        """Return the letter with an accent, or without its accent."""
        if found in _PLAIN:
            return _PLAIN[found]
        accented = ACCENTED[found]
        return accented[int(rng.random() * len(accented))]
