"""Transpositions: two neighbouring letters of a word change places."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "two neighbouring letters change places"
UNIT = "pairs of letters"
VERSION = 1

places = matches(r"([^\W\d_])(?!\1)[^\W\d_]")


def put(found: str, rng: Random) -> str:
    """Return the pair the other way round."""
    return found[::-1]
