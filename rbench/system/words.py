"""Says what a word of a text is, in every script, for BM25, cleaning and noise. Under attack TextAttack says it.

A word is what stands between two word boundaries of Unicode (Standard Annex 29, as the package `regex` finds them) and
has a letter or a digit. So a combining mark belongs to its letter, `isn't`, `3.5` and `e.g` are one word, and
`well-known` is two.

Some scripts put no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese and others. There Unicode has a
boundary between any two letters, and only a dictionary knows which of them part words. So a run of such letters counts
as one word here, whose ends are ends of words. An index of words, which could then find only whole sentences, takes
each letter of a run and each two neighbours (`index_terms`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import regex

# In the keys of what cuts texts here (docs/keys.md): raise it when other words are found in the same text, and those
# jobs are run anew.
VERSION = 1

Span = tuple[int, int]
"""Start and end of a word in its text."""

_UNSPACED = r"[[\p{L}&&\p{Word_Break=Other}]\p{Word_Break=Katakana}\p{Script=Han}]"
"""Letters of scripts without spaces: those between which Unicode has a boundary, and those that are mixed with them."""
_LETTER = regex.compile(rf"(?V1){_UNSPACED}[\p{{M}}\p{{Cf}}]*")
_SEGMENT = regex.compile(
    rf"(?V1w)(?P<run>(?:{_UNSPACED}[\p{{M}}\p{{Cf}}]*)+)|\b(?=[\p{{Word_Break=ALetter}}\p{{L}}\p{{N}}_])(?s:.)+?\b"
)
"""A run, or what stands between two boundaries; of signs alone at most where Unicode takes them for letters."""
_IN_WORDS = regex.compile(r"[\p{L}\p{N}]")
_NO_LETTER = regex.compile(r"(?V1)\p{Default_Ignorable_Code_Point}+|[^\p{L}\p{M}\p{N}]\p{M}*")
"""What shows nothing; and a character that is no letter and no digit, with the marks on it."""


def word_spans(text: str) -> list[Span]:
    """Return where the words of a text are, in its order."""
    return [matched.span() for matched in _word_matches(text)]


def _word_matches(text: str) -> Iterator[Any]:
    return (matched for matched in _SEGMENT.finditer(text) if _IN_WORDS.search(matched[0]))


def index_terms(text: str) -> list[str]:
    """Return the words of a text for an index, without case and compatibility forms (NFKC).

    Of a run of letters of a script without spaces it returns each letter and each two neighbours.
    """
    all_terms: list[str] = []
    for word in _word_matches(unicodedata.normalize("NFKC", text).casefold()):
        if word["run"] is None:
            all_terms.append(word[0])
        else:
            single = _LETTER.findall(word[0])
            all_terms += [*single, *map("".join, pairwise(single))]
    return all_terms


def fold_letters(text: str) -> str:
    """Return the letters and digits of a text with their marks, in lower case and in Unicode's composed form (NFC).

    Texts that differ in case, punctuation and spaces alone, or in how a letter with a mark is stored, have the same.
    """
    lower = text.lower().replace("i\u0307", "i")  # what `lower` makes of the Turkish capital
    kept_letters: str = _NO_LETTER.sub("", unicodedata.normalize("NFC", lower))
    return kept_letters
