"""Replacement words from a masked language model and word vectors, batched over words and texts.

The Geometry attack, its random control, ADCL's hard positives and adversarial training all take their candidates from
here. The module takes plain texts and knows neither TextAttack nor tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rbench.encoders.sentence import longest_input
from rbench.errors import ResourceError
from rbench.inference import Memo
from rbench.resources.masked_lm import MaskedLM, Question

VERSION = 1

MEMORY_BYTES = 64 << 20
"""So much memory holds replacements: adversarial training asks for many of the same ones in every epoch."""

MaskedSpan = tuple[str, int, int]
"""A text, and the first and the last character (exclusive) of a word in it."""


class MaskedWords:
    """Replacement words from a masked language model, filtered by word vectors (ADCL paper, section 3.3, step 3).

    One mask token stands in for the word in its full text. Of the model's predictions, those count that are one whole
    alphabetic word other than the word itself. A text longer than the model's limit is cut to a window around the mask.
    A replacement takes the case of the word that it replaces (lower, UPPER, Capitalised).

    Args:
        language_model: predicts words in place of the mask.
        index: lower-case words to rows of `vectors`.
        vectors: (words, dim), of unit length.
        candidates: so many of the most probable predictions are taken.
        min_cosine: of these, those are kept whose vector has at least this cosine with the word's.
        unknown: whether a candidate is kept where it or the word has no vector.

    Raises:
        ResourceError: the language model has no fast tokenizer.
    """

    def __init__(
        self,
        language_model: MaskedLM,
        index: Mapping[str, int],
        vectors: npt.NDArray[np.floating[Any]],
        *,
        candidates: int = 50,
        min_cosine: float = 0.5,
        unknown: Literal["discard", "keep"] = "discard",
    ) -> None:
        self.language_model, self.tokenizer = language_model, language_model.tokenizer
        if not getattr(self.tokenizer, "is_fast", False):
            raise ResourceError("the masked language model needs a fast tokenizer")
        self.index, self.vectors = index, vectors
        self.candidates, self.min_cosine, self.unknown = candidates, min_cosine, unknown
        _, self._words = language_model.whole_words
        self._rows = np.array([index.get(word.lower(), -1) for word in self._words])
        self._memory: Memo[MaskedSpan, list[str]] = Memo(
            MEMORY_BYTES, lambda slot, words: 300 + 2 * len(slot[0]) + 60 * len(words)
        )
        self._limit = longest_input(language_model.model, self.tokenizer)
        empty = self.tokenizer("")["input_ids"]
        self._prefix, self._suffix = empty[:1], empty[1:]

    def __call__(self, slots: Sequence[MaskedSpan]) -> list[list[str]]:
        """The replacements of each word in its text, most probable first. All words not remembered are one batch."""
        known = {slot: reply for slot in dict.fromkeys(slots) if (reply := self._memory.get(slot)) is not None}
        new = [slot for slot in dict.fromkeys(slots) if slot not in known]
        for slot, reply in zip(new, self._ask(new), strict=True):
            known[slot] = reply
            self._memory.put(slot, reply)
        return [list(known[slot]) for slot in slots]  # copies: a caller may change what it gets

    def _ask(self, slots: Sequence[MaskedSpan]) -> list[list[str]]:
        """As `__call__`, without memory."""
        replies: list[list[str]] = [[] for _ in slots]
        wanted = [
            k for k, (text, a, b) in enumerate(slots) if self.unknown == "keep" or text[a:b].lower() in self.index
        ]
        masked = self._mask([slots[k] for k in wanted])
        # Four times as many as wanted: a cased vocabulary has a word up to three times (good, Good, GOOD).
        first = 4 * self.candidates + 1
        questions = [Question((tuple(ids), None), place, first, "words") for ids, place in masked]
        ranked = self.language_model.ranked(questions)
        for k, best in zip(wanted, ranked, strict=True):
            text, a, b = slots[k]
            replies[k] = self._filter(text[a:b], best.ids)
        return replies

    def _mask(self, slots: Sequence[MaskedSpan]) -> list[tuple[list[int], int]]:
        """For each slot the token ids with one mask in place of the word's pieces, and the place of the mask."""
        texts = list(dict.fromkeys(text for text, _, _ in slots))
        if not texts:
            return []
        encoded = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        pieces = {t: (encoded["input_ids"][k], encoded["offset_mapping"][k]) for k, t in enumerate(texts)}
        room = self._limit - len(self._prefix) - len(self._suffix)
        masked = []
        for text, a, b in slots:
            ids, offsets = pieces[text]
            before = sum(1 for start, end in offsets if end <= a)
            while before and not text[slice(*offsets[before - 1])].strip():
                before -= 1  # a byte-level piece that is only the space in front, which mask tokens include
            after = sum(1 for start, end in offsets if start >= b)
            tokens = [*ids[:before], self.tokenizer.mask_token_id, *ids[len(ids) - after :]]
            left = max(0, min(before - room // 2, len(tokens) - room))
            window = tokens[left : left + room]
            masked.append(([*self._prefix, *window, *self._suffix], len(self._prefix) + before - left))
        return masked

    def _filter(self, word: str, ranked: Sequence[int]) -> list[str]:
        """The replacements of a word among the model's words, given by number, most probable first."""
        kept: list[int] = []
        seen = {word.lower()}
        for k in ranked:
            if len(kept) == self.candidates:
                break
            if self._words[k].lower() not in seen:
                seen.add(self._words[k].lower())
                kept.append(k)
        row = self.index.get(word.lower(), -1)
        rows = self._rows[kept]
        known = (rows >= 0) & (row >= 0)
        cosines = self.vectors[rows] @ self.vectors[row]
        keep = np.where(known, cosines >= self.min_cosine, self.unknown == "keep")
        return [_in_case_of(word, self._words[k]) for k, good in zip(kept, keep, strict=True) if good]


def _in_case_of(original: str, word: str) -> str:
    """`word` in the case of `original`."""
    if original.islower():
        return word.lower()
    if original.isupper() and len(original) > 1:
        return word.upper()
    return word.capitalize() if original.istitle() else word
