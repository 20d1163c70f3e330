"""Typing errors: the key beside the right one, on a QWERTY keyboard."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, cased, matches

VERSION = 1

_ROWS = (("qwertyuiop", 0.0), ("asdfghjkl", 0.25), ("zxcvbnm", 0.75))
"""The rows of letters, each with how far it is moved to the right, in keys."""
_AT = {letter: (i + moved, row) for row, (keys, moved) in enumerate(_ROWS) for i, letter in enumerate(keys)}
BESIDE = {
    letter: "".join(other for other, (u, v) in _AT.items() if other != letter and abs(u - x) <= 1 and abs(v - y) <= 1)
    for letter, (x, y) in _AT.items()
}
"""The letters whose keys touch a letter's key."""


class Typos(NoiseKind):
    title = "the key beside a letter's own, on a QWERTY keyboard"
    unit = "letters"
    only_for = "Latin letters"
    places = matches("[A-Za-z]")

    def put(self, found: str, rng: Random) -> str:
        """Return a neighbouring letter, in the same case."""
        beside = BESIDE[found.lower()]
        return cased(beside[int(rng.random() * len(beside))], found)
