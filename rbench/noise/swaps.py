"""Transpositions: two neighbouring letters of a word change places, with the marks on them."""

from __future__ import annotations

from random import Random

import regex

from rbench.noise import NoiseKind, matches

VERSION = 2

_LETTER = r"\p{L}\p{M}*+"


class Swaps(NoiseKind):
    title = "two neighbouring letters change places"
    unit = "pairs of letters"
    places = matches(rf"({_LETTER})(?!\1(?!\p{{M}})){_LETTER}")

    def put(self, found: str, rng: Random) -> str:
        """Return the pair the other way round."""
        return "".join(reversed(regex.findall(_LETTER, found)))
