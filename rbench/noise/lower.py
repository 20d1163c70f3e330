"""Lower case: a word loses its capitals."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import NoiseKind, each_word

VERSION = 2


class Lower(NoiseKind):
    title = "a word in lower case"
    unit = "words"
    only_for = "Latin letters"
    places = each_word(re.compile("[A-Z]").search)

    def put(self, found: str, rng: Random) -> str:
        """Return the word in lower case."""
        return found.lower()
