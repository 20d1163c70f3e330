"""Edit sentences for CLINE (Wang et al. 2021, section 3.1): x_syn keeps the meaning, x_ant changes it.

Words that may be replaced are verbs, nouns, adjectives and adverbs by the universal tag of a part-of-speech tagger.
Auxiliaries and `not` are excluded by a list, because universal tags do not tell them from other verbs and adverbs.
Capitalised words within a sentence are excluded as names. x_syn replaces a word by a synonym, a hypernym or
another inflection; each kind that the word has is equally likely (ours). x_ant replaces words that have antonyms first,
by an antonym. It replaces other words by words of the corpus. These have the same tag, are drawn by their frequency, so
that rarity does not reveal them (ours), and are never related to the word in the thesaurus.

The paper replaces about 40% and 20% of tokens. Here the share is of words (tokens with a letter or a digit), and it
holds for the whole corpus: if a sentence has too few replaceable words, more are replaced in others (`rate`). At least
one word is replaced in every sentence that has a replaceable word. Each sentence has its own generator, seeded with
(seed, sentence).

This module uses no torch, no files and no processes. `rbench.train.edited` edits whole corpora.
"""

from __future__ import annotations

import random
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from rbench.resources.thesaurus import TAGS, Related
from rbench.spec.common import Positive, Share, Strict

_TRIES = 50
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


class EditOptions(Strict):
    """How many words are replaced, and how near their replacements are."""

    synonym_share: Share = 0.4
    """Share of words replaced in x_syn, over the corpus: "about 40%"."""
    antonym_share: Share = 0.2
    """Share of words replaced in x_ant: "about 20%"."""
    nearest: Positive = 3
    """A replacement is drawn from the first `nearest` of its kind, as thesauri list the most frequent sense first
    (ours)."""


@dataclass(frozen=True)
class Edit:
    """An edited text, the `spans` (start, end) of its replacements, and how many of them are `antonyms`."""

    text: str
    spans: tuple[tuple[int, int], ...]
    antonyms: int = 0


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


def rate(share: float, words: Sequence[int], most: Sequence[int]) -> float:
    """Return the least q in 0..1 at which `share` of all words are replaced; 1 if no q reaches it.

    At q, `expected(q, n, m)` words are replaced in a sentence of n words of which m are replaceable.

    Args:
        share: share of all words to replace, 0..1.
        words: n for each sentence.
        most: m for each sentence.
    """
    n, m = np.asarray(words, dtype=float), np.asarray(most, dtype=float)
    low, high = 0.0, 1.0
    for _ in range(40):
        q = (low + high) / 2
        low, high = (low, q) if np.clip(q * n, np.minimum(1, m), m).sum() >= share * n.sum() else (q, high)
    return high


def expected(q: float, words: int, most: int) -> float:
    """Return the mean number of words to replace: a share q of `words`, at least 1, at most `most`."""
    return float(min(max(q * words, 1), most))


class Editor:
    """Make x_syn and x_ant for the sentences of one corpus.

    Args:
        options: how much is replaced.
        seed: seed of all draws.
        table: the thesaurus entry of each word type of the corpus.
        counts: frequency of each word type. Words of the corpus are drawn by it.
        texts, found: the corpus and its replaceable words; they decide the two rates.
    """

    def __init__(
        self,
        options: EditOptions,
        seed: int,
        table: Mapping[Type, Related],
        counts: Mapping[Type, int],
        texts: Sequence[str],
        found: Sequence[Tagged],
    ) -> None:
        self._options, self._seed, self._table = options, seed, table
        self._same = {kind for kind, related in table.items() if _kinds(related)}
        words_of = {tag: sorted(word for word, own in counts if own == tag) for tag in TAGS}
        self._drawn = {tag: (own, list(accumulate(counts[word, tag] for word in own))) for tag, own in words_of.items()}
        self._other = {kind for kind, related in table.items() if related.antonyms or len(words_of[kind[1]]) > 1}
        able = [self._able(text, one) for text, one in zip(texts, found, strict=True)]
        words = [one.words for one in found]
        self.synonym_rate = rate(options.synonym_share, words, [same for same, _ in able])
        self.antonym_rate = rate(options.antonym_share, words, [other for _, other in able])

    def _able(self, text: str, found: Tagged) -> tuple[int, int]:
        """Count the words of a text that can be replaced in x_syn, and in x_ant."""
        kinds = [_kind(text, place) for place in found.places()]
        return sum(kind in self._same for kind in kinds), sum(kind in self._other for kind in kinds)

    def edit(self, text: str, found: Tagged) -> tuple[Edit, Edit]:
        """Return (x_syn, x_ant). Either is the text itself, without spans, if no word can be replaced."""
        # Only `random` and `choices` of it are used: they are the same in every version of Python.
        rng = random.Random(f"{self._seed}\0{text}")
        places = [(place, _kind(text, place)) for place in found.places()]
        same = sorted((one for one in places if one[1] in self._same), key=lambda _: rng.random())
        synonyms = {
            place: self._synonym(kind, rng)
            for place, kind in same[: _count(self.synonym_rate, found.words, len(same), rng)]
        }
        other = sorted((one for one in places if one[1] in self._other), key=lambda _: rng.random())
        other.sort(key=lambda one: not self._table[one[1]].antonyms)  # stable: antonyms first, in the order drawn
        antonyms: dict[ReplaceableWord, str] = {}
        count, opposite = _count(self.antonym_rate, found.words, len(other), rng), 0
        for place, kind in other:
            if len(antonyms) == count:
                break
            nearest = self._table[kind].antonyms[: self._options.nearest]
            word = rng.choices(nearest)[0] if nearest else self._stranger(kind, rng)
            if word is not None:
                antonyms[place], opposite = word, opposite + bool(nearest)
        return _replaced(text, synonyms), _replaced(text, antonyms, opposite)

    def _synonym(self, kind: Type, rng: random.Random) -> str:
        return rng.choices(rng.choices(_kinds(self._table[kind]))[0][: self._options.nearest])[0]

    def _stranger(self, kind: Type, rng: random.Random) -> str | None:
        """Draw a word of the corpus with the same tag that is unrelated to this one; None after `_TRIES` failures."""
        own = {kind[0], *self._table[kind].all}
        for _ in range(_TRIES):
            words, sums = self._drawn[kind[1]]
            word = rng.choices(words, cum_weights=sums)[0]  # by frequency
            if own.isdisjoint((word, *self._table[word, kind[1]].forms)):
                return word
        return None


def marks(offsets: Sequence[tuple[int, int]], special: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return delta_t of equation 4: 1 for each token within a replacement, that is each piece of a new word; else 0.

    Args:
        offsets: (start, end) of each token in the edited text. Byte-level BPE may make a token of the space before a
            word. Its offsets are empty and start at the word's first letter, so it counts as a piece of that word.
        special: 1 for special tokens, which have no place in the text.
        spans: `Edit.spans`.
    """
    found, at = [], 0
    for (start, end), nowhere in zip(offsets, special, strict=True):
        while not nowhere and at < len(spans) and spans[at][1] <= start:
            at += 1
        found.append(int(not nowhere and at < len(spans) and spans[at][0] < max(end, start + 1)))
    return found


def _kind(text: str, place: ReplaceableWord) -> Type:
    return text[place.start : place.end].lower(), place.tag


def _kinds(related: Related) -> list[tuple[str, ...]]:
    return [words for words in (related.synonyms, related.hypernyms, related.forms) if words]


def _count(q: float, words: int, most: int, rng: random.Random) -> int:
    """Round `expected` up or down at random, so that its mean is kept."""
    mean = expected(q, words, most)
    return int(mean) + (rng.random() < mean - int(mean))


def _replaced(text: str, words: Mapping[ReplaceableWord, str], antonyms: int = 0) -> Edit:
    parts, spans, at, length = [], [], 0, 0
    for place in sorted(words):
        kept, word = text[at : place.start], _cased(words[place], text[place.start : place.end])
        start = length + len(kept)
        parts += [kept, word]
        spans.append((start, start + len(word)))
        at, length = place.end, start + len(word)
    return Edit("".join((*parts, text[at:])), tuple(spans), antonyms)


def _cased(word: str, like: str) -> str:
    if like.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if like[0].isupper() else word
