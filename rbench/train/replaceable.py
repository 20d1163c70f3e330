"""Find the words of a text that CLINE's edits may replace, with a part-of-speech tagger.

These are verbs, nouns, adjectives and adverbs by their universal tag. Auxiliaries and `not` are excluded by a list,
because universal tags do not tell them from other verbs and adverbs. Capitalised words within a sentence are excluded
as names.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rbench.resources.thesaurus import TAGS

Type = tuple[str, str]
"""A lower-case word and its universal tag."""
_CLITIC = r"['’](?:s|m|d|re|ve|ll)\b"
_TOKEN = re.compile(
    rf"<\w+>|\w+(?=n['’]t\b)|n['’]t\b|{_CLITIC}|\w+(?:[-.]\w+|(?!{_CLITIC})['’]\w+)*|``|''|[^\w\s]", re.IGNORECASE
)
"""Tokens as in treebanks (do n't, film 's). Words keep their inner hyphens, dots and apostrophes."""
_WORD = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]+)*")
_AUXILIARIES = frozenset(
    [
        *("am", "is", "are", "was", "were", "be", "been", "being", "ai", "have", "has", "had", "having"),
        *("do", "does", "did", "doing", "done", "can", "ca", "cannot", "could", "may", "might", "must", "shall"),
        *("sha", "should", "will", "wo", "would", "ought", "need", "dare", "not"),
    ]
)


class ReplaceableWord(NamedTuple):
    """A replaceable word, text[start:end], and its universal tag."""

    start: int
    end: int
    tag: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """The number of words of a text, and its replaceable words, packed as three numbers each (`places`)."""

    words: int
    packed: array[int]

    def places(self) -> Iterator[ReplaceableWord]:
        """Return the replaceable words in the order of the text."""
        numbers = iter(self.packed)
        return (
            ReplaceableWord(start, end, TAGS[tag]) for start, end, tag in zip(numbers, numbers, numbers, strict=True)
        )


def tagged(text: str, tagger: Callable[[Sequence[str]], Sequence[tuple[str, str]]]) -> Tagged:
    """Find the replaceable words of `text`. `tagger` tags all its tokens in context."""
    tokens = list(_TOKEN.finditer(text))
    packed, words, begins = array("I"), 0, True
    for token, (word, tag) in zip(tokens, tagger([token[0] for token in tokens]), strict=True):
        named = word[0].isupper() and not begins
        if tag in TAGS and not named and _WORD.fullmatch(word) and word.lower() not in _AUXILIARIES:
            packed.extend((token.start(), token.end(), TAGS.index(tag)))
        if any(map(str.isalnum, word)):
            words, begins = words + 1, False
        elif word in ".!?":
            begins = True
    return Tagged(words, packed)


def types(texts: Sequence[str], found: Sequence[Tagged]) -> Counter[Type]:
    """Count how often each replaceable word occurs under each tag."""
    return Counter(
        (text[place.start : place.end].lower(), place.tag)
        for text, one in zip(texts, found, strict=True)
        for place in one.places()
    )
