"""Clauses before the text that say nothing of it."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, Span
from rbench.noise._changes import MOST_CLAUSES
from rbench.noise._clauses import CLAUSES

VERSION = 1


class Before(NoiseKind):
    title = "a clause before the text that says nothing of it"
    unit = "clauses"
    only_for = "English"

    def places(self, text: str) -> list[Span]:
        """Return the beginning of the text, once for each clause."""
        return [(0, 0)] * MOST_CLAUSES

    def put(self, found: str, rng: Random) -> str:
        """Return a clause."""
        clause = CLAUSES[int(rng.random() * len(CLAUSES))]
        return f"{clause[0].upper()}{clause[1:]}. "
