"""Omissions: a letter is missing, with the marks on it."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a letter is left out"
UNIT = "letters"
VERSION = 2

places = matches(r"\p{L}\p{M}*")


def put(found: str, rng: Random) -> str:
    """Return nothing."""
    return ""
