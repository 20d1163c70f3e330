"""Lower case: a word loses its capitals."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a word in lower case"
UNIT = "words"
VERSION = 1

places = matches(r"\w*[A-Z]\w*(?:['’]\w+)*")


def put(found: str, rng: Random) -> str:
    """Return the word in lower case."""
    return found.lower()
