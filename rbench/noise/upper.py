"""Upper case: a word is shouted."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a word in capitals"
UNIT = "words"
VERSION = 1

places = matches(r"\w*[a-z]\w*(?:['’]\w+)*")


def put(found: str, rng: Random) -> str:
    """Return the word in capitals."""
    return found.upper()
