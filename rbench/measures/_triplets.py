"""Triplets of CLINE's section 4.6: a text, the text with one synonym, and the text with one antonym in its place."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rbench.words.resources.thesaurus import TAGS, Thesaurus

if TYPE_CHECKING:
    from rbench.tasks import Example

_TOKEN = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]+)*")
_AUXILIARIES = frozenset(
    [
        *("am", "is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "having", "do", "does", "did"),
        *("doing", "done", "can", "could", "may", "might", "must", "shall", "should", "will", "would", "not"),
    ]
)
"""Words that a tagger may call verbs or adverbs, and that carry little meaning of their own."""


class Triplet(NamedTuple):
    """An example's id, its text, and the text with one word replaced by a synonym, and by an antonym."""

    example: str
    original: str
    synonym: str
    antonym: str


def triplets(
    rows: Sequence[Example], tags: Callable[[Sequence[str]], Sequence[tuple[str, str]]], look_up: Thesaurus, seed: int
) -> list[Triplet]:
    """Return a triplet for each text that has a word with both a synonym and an antonym, in the order of the rows.

    Where several words have both, the seed draws one, whatever the other rows are. Of its synonyms and antonyms the
    first is taken, which is of the most frequent sense.

    Args:
        tags: returns (word, universal tag) for each word of a text.
        look_up: synonyms and antonyms of a word with a tag.
    """
    found = []
    for one in rows:
        (text,) = one.texts
        tokens = list(_TOKEN.finditer(text))
        choices = []
        for token, (word, tag) in zip(tokens, tags([token[0] for token in tokens]), strict=True):
            if tag in TAGS and _WORD.fullmatch(word) and word.lower() not in _AUXILIARIES:
                related = look_up(word, tag)
                if related.synonyms and related.antonyms:
                    choices.append((token, related.synonyms[0], related.antonyms[0]))
        if choices:
            token, same, opposite = random.Random(f"{seed} {one.id}").choice(choices)
            found.append(Triplet(one.id, text, _put(text, token, same), _put(text, token, opposite)))
    return found


def _put(text: str, token: re.Match[str], word: str) -> str:
    """Return the text with a word in place of a token. It begins with a capital letter if the token does."""
    word = word[0].upper() + word[1:] if token[0][0].isupper() else word
    return text[: token.start()] + word + text[token.end() :]
