"""Omissions: a letter is missing, with the marks on it."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 2


class Drops(NoiseKind):
    title = "a letter is left out"
    unit = "letters"
    places = matches(r"\p{L}\p{M}*")

    def put(self, found: str, rng: Random) -> str:
        """Return nothing."""
        return ""
