"""Insertions: a key beside the right one is pressed too."""

from __future__ import annotations

from random import Random

from rbench.noise import matches, typos

TITLE = "a letter, and the key beside it too"
UNIT = "letters"
ONLY_FOR = "Latin letters"
VERSION = 1

places = matches("[A-Za-z]")


def put(found: str, rng: Random) -> str:
    """Return the letter and a neighbouring one."""
    return found + typos.put(found, rng)
