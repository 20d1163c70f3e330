"""A whole number becomes another one, in digits or in words: 12 and 19, `three` and `five`.

Years, parts of dates, versions and decimals are left, and so is 1, whose noun would have another form. A number keeps
its number of digits, so that the text stays plausible.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

from rbench.edits import EditKind, Labelled, Replacement, TaggedText

VERSION = 1

_WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_DIGITS = regex.compile(r"(?<![\w.,:/$€£-])(?!(?:1[6-9]|20)\d\d(?!\d))[1-9]\d{0,5}(?![\w/:-]|[.,]\d)")


class Number(EditKind):
    title = "a whole number, changed to another one"
    labelled = Labelled(changed=200, n=200)

    def replacements(self, text: TaggedText) -> Iterator[Replacement]:
        """Yield each number with another one in its place."""
        for found in _DIGITS.finditer(text.text):
            if found[0] != "1":
                yield Replacement(found.start(), found.end(), _other(found[0]))
        for i in range(len(text.words)):
            if text.lower(i) in _WORDS:
                yield text.replaced(i, i, _WORDS[(_WORDS.index(text.lower(i)) + 2) % len(_WORDS)])


def _other(number: str) -> str:
    """Return a number with as many digits: 2 becomes 5, 12 becomes 42, 90 becomes 30."""
    return f"{(int(number[0]) + 2) % 9 + 1}{number[1:]}"
