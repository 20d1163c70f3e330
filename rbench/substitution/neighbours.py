"""Replacement words that are the nearest in word vectors. No language model is asked, so the text around is not seen.

The authors of the Geometry attack name this source in the README of their public code (`--synonym cos_sim`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rbench.encoders.vectors import WordVectors
from rbench.substitution.segmentation import in_case_of, spans_of

VERSION = 1


class Neighbours:
    """The nearest words in word vectors, nearest first.

    A word is looked up in lower case; one that has no vector has no neighbours. An entry that is not one word (a
    phrase, a sign), or is the word itself in another case, is passed over. A replacement takes the case of the word
    that it replaces, as `segmentation.in_case_of` says.

    Args:
        vectors: the word vectors.
        candidates: at most so many words are proposed. The authors take the top 25 with the word itself, which is 24.
        min_cosine: words are proposed whose cosine with the word is at least this; None: all.
    """

    def __init__(self, vectors: WordVectors, *, candidates: int = 24, min_cosine: float | None = 0.5) -> None:
        self.vectors, self.candidates, self.min_cosine = vectors, candidates, min_cosine
        self._known: dict[str, list[str]] = {}

    def __call__(self, slots: Sequence[tuple[str, int, int]]) -> list[list[str]]:
        """The replacements of each word, which the text around it does not change."""
        return [[in_case_of(text[a:b], new) for new in self._near(text[a:b].lower())] for text, a, b in slots]

    def _near(self, word: str) -> list[str]:
        """The neighbours of a lower-case word, in lower case."""
        if word not in self._known:
            kept: dict[str, None] = {}
            if word in self.vectors:
                for i, cosine in self.vectors.most_similar(self.vectors.index[word], self.candidates):
                    other = self.vectors.words[i].lower()
                    if self.min_cosine is not None and cosine < self.min_cosine:
                        break
                    if other != word and spans_of((other,)) == [(0, 0, len(other))]:
                        kept[other] = None
            self._known[word] = list(kept)
        return self._known[word]
