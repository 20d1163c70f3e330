"""Bidirectional controls: a word is stored backwards between controls that show it forwards."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a word stored backwards, which a right-to-left override shows forwards"
UNIT = "words"
VERSION = 1

places = matches(r"(?<![\w'’])[A-Za-z]+(?![\w'’])")


def put(found: str, rng: Random) -> str:
    """Return the word backwards between U+202E and U+202C."""
    return f"\u202e{found[::-1]}\u202c"
