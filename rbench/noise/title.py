"""Title case: a word begins with a capital."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import NoiseKind, each_word

VERSION = 2


class Title(NoiseKind):
    title = "a word with a capital at its beginning"
    unit = "words"
    only_for = "Latin letters"
    places = each_word(re.compile("[a-z]").match)

    def put(self, found: str, rng: Random) -> str:
        """Return the word with a capital at its beginning."""
        return found[0].upper() + found[1:]
