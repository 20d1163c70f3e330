"""Sources of replacement words: the predictions of a masked language model, or the nearest words in word vectors.

`open_source` opens one for the Geometry attack, its random control, ADCL's hard positives or adversarial training. All
are called in the same way, with many words of many texts at once. They know neither TextAttack nor tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rbench.encoders.inference import BoundedMemo
from rbench.encoders.reading import find_longest_input
from rbench.encoders.vectors import WordVectors
from rbench.words.resources.masked_lm import MaskedLM, MaskQuestion
from rbench.words.substitution.options import CandidateOptions, Unknown
from rbench.words.substitution.segmentation import copy_case, find_words

# Raising it runs anew whatever takes candidates from here: the Geometry attack and its random control, ADCL,
# distillation and adversarial fine-tuning.
VERSION = 2

MEMORY_BYTES = 64 << 20
"""So much memory holds replacements: adversarial training asks for many of the same ones in every epoch."""

PREDICTIONS_A_CANDIDATE = 4
"""For T candidates 4T predictions are looked at: the authors' public code. The paper prints no number."""

WordPlace = tuple[str, int, int]
"""A text, and the first and the last character (exclusive) of a word in it."""
ProposeWords = Callable[[Sequence[WordPlace]], list[list[str]]]
"""Proposes replacements of words, the best first: `MaskedWords`, `NeighbourWords`, or a source of a user's own."""


def open_source(resources: Any, *, step: int | None = None, **options: Any) -> ProposeWords:
    """Open a source with those resources of a set that it needs (`CandidateOptions.needed`), and no others.

    Args:
        resources: a `rbench.words.resources.Resources`.
        step: the masked LM's batches are padded to a multiple of so many tokens. It changes no candidate.
        options: as in `CandidateOptions`.

    Raises:
        ResourceError: a resource that it needs is missing or damaged.
    """
    parsed = CandidateOptions(**options)
    numbers: dict[str, Any] = {"candidates": parsed.candidates, "min_cosine": parsed.min_cosine}
    if parsed.source == "neighbours":
        return NeighbourWords(resources.word_vectors, **numbers)
    language_model = resources.masked_lm if step is None else resources.masked_lm.padded(step)
    vectors = None if parsed.min_cosine is None else resources.word_vectors
    return MaskedWords(language_model, vectors, unknown=parsed.unknown, **numbers)


class MaskedWords:
    """Replacement words from a masked language model, filtered by word vectors (ADCL paper, section 3.3, step 3).

    One mask token stands in for the word in its full text. Of the model's predictions, those count that are one whole
    alphabetic word. The 4T most probable of them are looked at. The first T that pass the filter are the candidates, so
    T is the size of the set after the filter (Algorithm 1, appendix F). The word itself is passed over, and so is a
    prediction that was there in another case. A text longer than the model's limit is cut to a window around the mask.
    A replacement takes the case of the word that it replaces (lower, UPPER, Capitalised).

    Args:
        language_model: predicts words in place of the mask.
        vectors: the word vectors, whose words are in lower case; None where `min_cosine` is None.
        candidates: T.
        min_cosine: the filter: predictions pass whose vector has at least this cosine with the word's; None: all pass.
        unknown: whether a prediction passes where it or the word has no vector.
    """

    def __init__(
        self,
        language_model: MaskedLM,
        vectors: WordVectors | None,
        *,
        candidates: int = 50,
        min_cosine: float | None = 0.5,
        unknown: Unknown = "discard",
    ) -> None:
        self.language_model, self.tokenizer = language_model, language_model.tokenizer
        self.vectors = vectors if min_cosine is not None else None
        self.candidates, self.min_cosine, self.unknown = candidates, min_cosine, unknown
        _, self._words = language_model.whole_words
        self._memory: BoundedMemo[WordPlace, list[str]] = BoundedMemo(
            MEMORY_BYTES, lambda slot, words: 300 + 2 * len(slot[0]) + 60 * len(words)
        )
        self._limit = find_longest_input(language_model.model, self.tokenizer)
        empty = self.tokenizer("")["input_ids"]
        self._prefix, self._suffix = empty[:1], empty[1:]

    def __call__(self, slots: Sequence[WordPlace]) -> list[list[str]]:
        """The replacements of each word in its text, most probable first. All words not remembered are one batch."""
        return list(map(list, self._memory.filled(slots, self._ask)))  # copies: a caller may change what it gets

    def _ask(self, slots: Sequence[WordPlace]) -> list[list[str]]:
        """As `__call__`, without memory."""
        replies: list[list[str]] = [[] for _ in slots]
        # The model is not asked about a word for which no prediction could pass the filter.
        vectors = None if self.unknown == "keep" else self.vectors
        asked_slots = [k for k, (text, a, b) in enumerate(slots) if vectors is None or text[a:b].lower() in vectors]
        masked = self._mask([slots[k] for k in asked_slots])
        questions = [
            MaskQuestion((tuple(ids), None), place, PREDICTIONS_A_CANDIDATE * self.candidates, "words")
            for ids, place in masked
        ]
        ranked = self.language_model.ranked(questions)
        for k, best_words in zip(asked_slots, ranked, strict=True):
            text, a, b = slots[k]
            replies[k] = self._filter(text[a:b], best_words.ids)
        return replies

    def _mask(self, slots: Sequence[WordPlace]) -> list[tuple[list[int], int]]:
        """For each slot the token ids with one mask in place of the word's pieces, and the place of the mask."""
        texts = list(dict.fromkeys(text for text, _, _ in slots))
        if not texts:
            return []
        encoded = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        pieces = {t: (encoded["input_ids"][k], encoded["offset_mapping"][k]) for k, t in enumerate(texts)}
        window_length = self._limit - len(self._prefix) - len(self._suffix)
        masked = []
        for text, a, b in slots:
            ids, offsets = pieces[text]
            before = sum(1 for start, end in offsets if end <= a)
            while before and not text[slice(*offsets[before - 1])].strip():
                before -= 1  # a byte-level piece that is only the space in front, which mask tokens include
            after = sum(1 for start, end in offsets if start >= b)
            tokens = [*ids[:before], self.tokenizer.mask_token_id, *ids[len(ids) - after :]]
            # The window of `room` tokens is centred on the mask, and shifted inwards at either end of the text.
            window_start = max(0, min(before - window_length // 2, len(tokens) - window_length))
            window = tokens[window_start : window_start + window_length]
            masked.append(([*self._prefix, *window, *self._suffix], len(self._prefix) + before - window_start))
        return masked

    def _filter(self, word: str, ranked: Sequence[int]) -> list[str]:
        """The replacements of a word among the model's words, given by number, most probable first."""
        # By lower case, the last one written wins: reversed, so that the most probable writing of a word is kept.
        first_writing = {self._words[k].lower(): self._words[k] for k in reversed(ranked)}  # of several cases the first
        distinct = [w for w in dict.fromkeys(self._words[k].lower() for k in ranked) if w != word.lower()]
        passing = [
            first_writing[w] for w, passes in zip(distinct, self._passes_filter(word, distinct), strict=True) if passes
        ]
        return [copy_case(word, new) for new in passing[: self.candidates]]

    def _passes_filter(self, word: str, others: Sequence[str]) -> Sequence[bool]:
        if self.vectors is None or self.min_cosine is None:
            return [True] * len(others)
        index, unit = self.vectors.index, self.vectors.unit
        row, rows = index.get(word.lower(), -1), np.array([index.get(other, -1) for other in others], dtype=np.int64)
        is_near = unit[rows] @ unit[row] >= self.min_cosine
        return list(np.where((rows >= 0) & (row >= 0), is_near, self.unknown == "keep"))


class NeighbourWords:
    """The nearest words in word vectors, nearest first. No language model is asked, so the text around is not seen.

    The authors of the Geometry attack name this source in the README of their public code (`--synonym cos_sim`).

    A word is looked up in lower case; one that has no vector has no neighbours. An entry that is not one word (a
    phrase, a sign), or is the word itself in another case, is passed over. A replacement takes the case of the word
    that it replaces, as `segmentation.copy_case` says.

    Args:
        vectors: the word vectors.
        candidates: at most so many words are proposed. The authors take the top 25 with the word itself, which is 24.
        min_cosine: words are proposed whose cosine with the word is at least this; None: all.
    """

    def __init__(self, vectors: WordVectors, *, candidates: int = 24, min_cosine: float | None = 0.5) -> None:
        self.vectors, self.candidates, self.min_cosine = vectors, candidates, min_cosine
        self._known: dict[str, list[str]] = {}

    def __call__(self, slots: Sequence[WordPlace]) -> list[list[str]]:
        """The replacements of each word, which the text around it does not change."""
        return [[copy_case(text[a:b], new) for new in self._near(text[a:b].lower())] for text, a, b in slots]

    def _near(self, word: str) -> list[str]:
        if word not in self._known:
            neighbours: dict[str, None] = {}
            if word in self.vectors:
                for i, cosine in self.vectors.most_similar(self.vectors.index[word], self.candidates):
                    other = self.vectors.words[i].lower()
                    if self.min_cosine is not None and cosine < self.min_cosine:
                        break
                    if other != word and find_words((other,)) == [(0, 0, len(other))]:
                        neighbours[other] = None
            self._known[word] = list(neighbours)
        return self._known[word]
