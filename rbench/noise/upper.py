"""Upper case: a word is shouted."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import NoiseKind, each_word

VERSION = 2


class Upper(NoiseKind):
    title = "a word in capitals"
    unit = "words"
    only_for = "Latin letters"
    places = each_word(re.compile("[a-z]").search)

    def put(self, found: str, rng: Random) -> str:
        """Return the word in capitals."""
        return found.upper()
