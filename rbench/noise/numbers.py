"""Dates and whole numbers, written in another way with the same value.

A date becomes one with a name for its month, or of digits alone. A number is written in words, with or without commas.
Years, decimals, digits inside words and numbers with a sign (`50%`, `#1`, `$5`) are left as they are.
"""

from __future__ import annotations

import functools
import re
from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 2

_FIRST, _LAST = "January February March April May June", "July August September October November December"
MONTHS = [*_FIRST.split(), *_LAST.split()]
_ISO = r"(?:1[6-9]|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_NAMED = rf"(?:3[01]|[12]\d|[1-9]) (?:{'|'.join(MONTHS)}) (?:1[6-9]|20)\d\d"
_COMMAS = r"[1-9]\d{0,2}(?:,\d{3}){1,3}"
_DIGITS = r"(?!(?:1[1-9]|20)\d\d(?!\d))(?:0|[1-9]\d{0,8})"
_MOST_IN_WORDS = 9999


@functools.lru_cache(maxsize=4096)
def _words(number: int) -> str:
    from num2words import num2words

    return str(num2words(number))


class Numbers(NoiseKind):
    title = "a date or whole number, written in another way with the same value"
    unit = "numbers"
    only_for = "English"
    places = matches(
        rf"(?<![\w.,:/#$€£'’-])(?:{_ISO}|{_NAMED}|{_COMMAS}|{_DIGITS})(?![\w/:%°$€£'’-]|[.,]\d|, (?:1[6-9]|20)\d\d)"
    )

    def put(self, found: str, rng: Random) -> str:
        """Return the same date or number in another form."""
        if re.fullmatch(_NAMED, found):
            named = found.split()
            return f"{named[2]}-{MONTHS.index(named[1]) + 1:02}-{int(named[0]):02}"
        if "-" in found:
            year, month, day = map(int, found.split("-"))
            return f"{day} {MONTHS[month - 1]} {year}"
        if "," in found:
            return found.replace(",", "")
        number = int(found)
        return f"{number:,}" if number > _MOST_IN_WORDS else _words(number)
