"""Title case: a word begins with a capital."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a word with a capital at its beginning"
UNIT = "words"
VERSION = 1

places = matches(r"(?<![\w'’])[a-z]\w*")


def put(found: str, rng: Random) -> str:
    """Return the word with a capital at its beginning."""
    return found[0].upper() + found[1:]
