"""Bidirectional controls: a word is stored backwards between controls that show it forwards."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import NoiseKind, each_word

VERSION = 2


class Bidi(NoiseKind):
    title = "a word stored backwards, which a right-to-left override shows forwards"
    unit = "words"
    only_for = "Latin letters"
    places = each_word(re.compile("[A-Za-z]+").fullmatch)

    def put(self, found: str, rng: Random) -> str:
        """Return the word backwards between U+202E and U+202C."""
        return f"\u202e{found[::-1]}\u202c"
