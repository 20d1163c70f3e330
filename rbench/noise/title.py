"""Title case: a word begins with a capital."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import each_word

TITLE = "a word with a capital at its beginning"
UNIT = "words"
ONLY_FOR = "Latin letters"
VERSION = 2

places = each_word(re.compile("[a-z]").match)


def put(found: str, rng: Random) -> str:
    """Return the word with a capital at its beginning."""
    return found[0].upper() + found[1:]
