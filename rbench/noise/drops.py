"""Omissions: a letter is missing."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a letter is left out"
UNIT = "letters"
VERSION = 1

places = matches(r"[^\W\d_]")


def put(found: str, rng: Random) -> str:
    """Return nothing."""
    return ""
