"""Upper case: a word is shouted."""

from __future__ import annotations

import re
from random import Random

from rbench.noise import each_word

TITLE = "a word in capitals"
UNIT = "words"
ONLY_FOR = "Latin letters"
VERSION = 2

places = each_word(re.compile("[a-z]").search)


def put(found: str, rng: Random) -> str:
    """Return the word in capitals."""
    return found.upper()
