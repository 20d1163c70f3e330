"""Zero-width characters between the letters of a word, which readers do not see."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a character of no width between two letters"
UNIT = "letters"
VERSION = 2

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
"""Zero-width space, non-joiner, joiner, word joiner, and zero-width no-break space."""

places = matches(r"(?<=\p{L}\p{M}*)(?=\p{L})")


def put(found: str, rng: Random) -> str:
    """Return a character of no width."""
    return INVISIBLE[int(rng.random() * len(INVISIBLE))]
