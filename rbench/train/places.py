"""Which words of a text may be replaced, by a tagger: what CLINE's edits have to choose from.

Verbs, nouns, adjectives and adverbs by their universal tag, but for auxiliaries and `not`, which taggers with finer
tags tell apart, and for capitalised words within a sentence, which are names.
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
"""As treebanks have it (do n't, film 's); the second to last are words, with what joins their parts."""
_WORD = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]+)*")
_AUXILIARIES = frozenset(
    [
        *("am", "is", "are", "was", "were", "be", "been", "being", "ai", "have", "has", "had", "having"),
        *("do", "does", "did", "doing", "done", "can", "ca", "cannot", "could", "may", "might", "must", "shall"),
        *("sha", "should", "will", "wo", "would", "ought", "need", "dare", "not"),
    ]
)


class Place(NamedTuple):
    """A replaceable word: text[start:end], and its universal tag."""

    start: int
    end: int
    tag: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """What there is to replace in a text: the number of its words, and three numbers a place, packed (`places`)."""

    words: int
    packed: array[int]

    def places(self) -> Iterator[Place]:
        """The places, in the order of the text."""
        numbers = iter(self.packed)
        return (Place(start, end, TAGS[tag]) for start, end, tag in zip(numbers, numbers, numbers, strict=True))


def tagged(text: str, tagger: Callable[[Sequence[str]], Sequence[tuple[str, str]]]) -> Tagged:
    """The words of `text` that may be replaced, by what `tagger` says of its tokens in context."""
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
    """How often each replaceable word occurs under each tag."""
    return Counter(
        (text[place.start : place.end].lower(), place.tag)
        for text, one in zip(texts, found, strict=True)
        for place in one.places()
    )
