"""Zero-width characters between the letters of a word, which readers do not see."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 2

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
"""Zero-width space, non-joiner, joiner, word joiner, and zero-width no-break space."""


class Zerowidth(NoiseKind):
    title = "a character of no width between two letters"
    unit = "letters"
    places = matches(r"(?<=\p{L}\p{M}*)(?=\p{L})")

    def put(self, found: str, rng: Random) -> str:
        """Return a character of no width."""
        return INVISIBLE[int(rng.random() * len(INVISIBLE))]
