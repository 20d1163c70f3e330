"""Punctuation: a mark is missing or repeated, or stands where none belongs."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 2

_MARKS = (",", ".", ";", ":", "!", "?", "...", " -")


class Punctuation(NoiseKind):
    title = "a punctuation mark is missing, repeated, or put after a word"
    unit = "words"
    places = matches(r"[.,;:!?](?!\w)|(?<=\w)(?= )")

    def put(self, found: str, rng: Random) -> str:
        """Return nothing or the mark twice; a mark where there was none."""
        if found:
            return "" if rng.random() < 0.5 else found * 2
        return _MARKS[int(rng.random() * len(_MARKS))]
