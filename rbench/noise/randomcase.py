"""Random case: a letter changes its case."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 1


class Randomcase(NoiseKind):
    title = "a letter in the other case"
    unit = "letters"
    only_for = "Latin letters"
    places = matches("[A-Za-z]")

    def put(self, found: str, rng: Random) -> str:
        """Return the letter in the other case."""
        return found.swapcase()
