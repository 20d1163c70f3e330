"""Edit sentences for CLINE (Wang et al. 2021, section 3.1): x_syn keeps the meaning, x_ant changes it.

`rbench.train.replaceable` finds the words that may be replaced. x_syn replaces a word by a synonym, a hypernym or
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
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np

from rbench.resources.thesaurus import TAGS, Related
from rbench.spec.common import Positive, Share, Strict
from rbench.train.replaceable import ReplaceableWord, Tagged, Type

T = TypeVar("T")
_TRIES = 50


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
        self._drawn = {tag: _Distribution(tag, counts) for tag in TAGS}
        self._other = {kind for kind, related in table.items() if related.antonyms or self._drawn[kind[1]].size > 1}
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
        # Only random() of it is used: its numbers are the same in every version of Python.
        rng = random.Random(f"{self._seed}\0{text}")
        places = [(place, _kind(text, place)) for place in found.places()]
        same = _shuffled([one for one in places if one[1] in self._same], rng)
        synonyms = {
            place: self._synonym(kind, rng)
            for place, kind in same[: _count(self.synonym_rate, found.words, len(same), rng)]
        }
        other = _shuffled([one for one in places if one[1] in self._other], rng)
        other.sort(key=lambda one: not self._table[one[1]].antonyms)  # stable: antonyms first, in the order drawn
        antonyms: dict[ReplaceableWord, str] = {}
        count, opposite = _count(self.antonym_rate, found.words, len(other), rng), 0
        for place, kind in other:
            if len(antonyms) == count:
                break
            nearest = self._table[kind].antonyms[: self._options.nearest]
            word = _choice(nearest, rng) if nearest else self._stranger(kind, rng)
            if word is not None:
                antonyms[place], opposite = word, opposite + bool(nearest)
        return _replaced(text, synonyms), _replaced(text, antonyms, opposite)

    def _synonym(self, kind: Type, rng: random.Random) -> str:
        return _choice(_choice(_kinds(self._table[kind]), rng)[: self._options.nearest], rng)

    def _stranger(self, kind: Type, rng: random.Random) -> str | None:
        """Draw a word of the corpus with the same tag that is unrelated to this one; None after `_TRIES` failures."""
        own = {kind[0], *self._table[kind].all}
        for _ in range(_TRIES):
            word = self._drawn[kind[1]].draw(rng)
            if own.isdisjoint((word, *self._table[word, kind[1]].forms)):
                return word
        return None


class _Distribution:
    """Draw words of a tag by their frequency."""

    def __init__(self, tag: str, counts: Mapping[Type, int]) -> None:
        self._words = sorted(word for word, own in counts if own == tag)
        self._sums = list(accumulate(counts[word, tag] for word in self._words))
        self.size = len(self._words)

    def draw(self, rng: random.Random) -> str:
        return self._words[bisect(self._sums, int(rng.random() * self._sums[-1]))]


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


def _choice(items: Sequence[T], rng: random.Random) -> T:
    return items[int(rng.random() * len(items))]


def _shuffled(items: list[T], rng: random.Random) -> list[T]:
    return [item for _, _, item in sorted((rng.random(), at, item) for at, item in enumerate(items))]


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
