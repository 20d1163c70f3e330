"""Insertions: a key beside the right one is pressed too."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches
from rbench.noise.typos import Typos

VERSION = 1


class Insertions(NoiseKind):
    title = "a letter, and the key beside it too"
    unit = "letters"
    only_for = "Latin letters"
    places = matches("[A-Za-z]")

    def put(self, found: str, rng: Random) -> str:
        """Return the letter and a neighbouring one."""
        return found + Typos().put(found, rng)
