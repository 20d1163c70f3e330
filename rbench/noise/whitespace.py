"""White space: a space between two words is missing, doubled, or of another kind."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 1

_SPACES = ("", "  ", "\t", "\u00a0")


class Whitespace(NoiseKind):
    title = "a space is missing, doubled, a tab or a no-break space"
    unit = "spaces"
    places = matches(r"(?<=\S) (?=\S)")

    def put(self, found: str, rng: Random) -> str:
        """Return nothing, or other white space."""
        return _SPACES[int(rng.random() * len(_SPACES))]
