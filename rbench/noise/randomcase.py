"""Random case: a letter changes its case."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a letter in the other case"
UNIT = "letters"
ONLY_FOR = "Latin letters"
VERSION = 1

places = matches("[A-Za-z]")


def put(found: str, rng: Random) -> str:
    """Return the letter in the other case."""
    return found.swapcase()
