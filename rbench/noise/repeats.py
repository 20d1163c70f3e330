"""Repetitions: a letter is typed twice."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a letter is typed twice"
UNIT = "letters"
VERSION = 1

places = matches(r"[^\W\d_]")


def put(found: str, rng: Random) -> str:
    """Return the letter twice."""
    return found * 2
