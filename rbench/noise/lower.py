"""Lower case: a word loses its capitals."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import each_word

TITLE = "a word in lower case"
UNIT = "words"
ONLY_FOR = "Latin letters"
VERSION = 2

places = each_word(re.compile("[A-Z]").search)


def put(found: str, rng: Random) -> str:
    """Return the word in lower case."""
    return found.lower()
