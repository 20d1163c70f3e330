"""Repetitions: a letter is typed twice, with the marks on it."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 2


class Repeats(NoiseKind):
    title = "a letter is typed twice"
    unit = "letters"
    places = matches(r"\p{L}\p{M}*")

    def put(self, found: str, rng: Random) -> str:
        """Return the letter twice."""
        return found * 2
