"""The substitutions of a declared space (`rbench.schema.Space`) for one text, word by word."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rbench.schema import Space
from rbench.words.substitution.candidates import Neighbours
from rbench.words.substitution.segmentation import Columns, in_case_of, spans_of

VERSION = 1

AROUND = 4
"""Words before and after a word that the tagger sees with it, as in TextAttack's PartOfSpeech."""
_VERB_NOUN = {"NOUN", "VERB"}


class Substitutions:
    """Lists the substitutions of texts. They depend on nothing but the space, the resources and the original text.

    Args:
        space: what is declared.
        resources: a `rbench.words.resources.Resources`; only those of `space.needed` are opened.

    Raises:
        ResourceError: a resource that is needed is missing or damaged.
    """

    def __init__(self, space: Space, resources: Any) -> None:
        self.space, self.resources = space, resources
        self._stopwords = resources.stopwords if space.stop_words == "keep" else frozenset()
        vectors = resources.word_vectors if "word_vectors" in space.needed else None
        self._vectors: Any = vectors
        self._neighbours = Neighbours(vectors, candidates=space.k, min_cosine=space.cosine) if vectors else None

    def __call__(self, columns: Columns, protected: Collection[int] = ()) -> list[tuple[str, ...]]:
        """Return for each word of a text, in order, its replacements, the best first.

        Args:
            columns: the text; its words are those of `segmentation.spans_of`.
            protected: numbers of columns in which no word is replaced.
        """
        spans = spans_of(columns)
        words = [columns[column][start:end] for column, start, end in spans]
        found: list[tuple[str, ...]] = []
        for place, (column, start, end) in enumerate(spans):
            word = words[place]
            if column in protected or word.lower() in self._stopwords:
                found.append(())
                continue
            # A replacement that is not exactly one word by rbench's rules would shift the places of all later words.
            of = [new for new in self._proposed(columns[column], start, end) if spans_of((new,)) == [(0, 0, len(new))]]
            distinct = [new for new in dict.fromkeys(of) if new.lower() != word.lower()]
            found.append(tuple(self._same_part(words, place, distinct)))
        return found

    def _proposed(self, text: str, start: int, end: int) -> list[str]:
        if self.space.candidates == "counterfitted":
            assert self._neighbours is not None  # `needed` has the vectors
            return self._neighbours([(text, start, end)])[0]
        word = text[start:end]
        others = [in_case_of(word, other) for other in self.resources.synonyms(word.lower())[: self.space.k]]
        return [other for other in others if self._near(word.lower(), other.lower())]

    def _near(self, word: str, other: str) -> bool:
        if self.space.cosine is None:
            return True
        index, unit = self._vectors.index, self._vectors.unit
        there = word in index and other in index
        return there and float(unit[index[word]] @ unit[index[other]]) >= self.space.cosine

    def _same_part(self, words: Sequence[str], place: int, others: list[str]) -> list[str]:
        if not self.space.pos or not others:
            return others
        first = max(0, place - AROUND)
        before, after = words[first:place], words[place + 1 : place + 1 + AROUND]
        own = self._tag(before, words[place], after)
        return [other for other in others if self._fits(own, self._tag(before, other, after))]

    def _tag(self, before: Sequence[str], word: str, after: Sequence[str]) -> str:
        return str(self.resources.pos_tag([*before, word, *after], len(before)))

    @staticmethod
    def _fits(own: str, other: str) -> bool:
        return own == other or {own, other} <= _VERB_NOUN


def replaced(original: Columns, changed: Columns, replacements: Sequence[Collection[str]]) -> int | None:
    """Return the smallest number of replacements that turn a text into another one; None where none do.

    Args:
        original: the text.
        changed: the other one.
        replacements: for each word of the text its replacements, as `Substitutions` gives them.
    """
    if len(changed) != len(original):
        return None
    words, total = list(zip(spans_of(original), replacements, strict=True)), 0
    for column, (old, new) in enumerate(zip(original, changed, strict=True)):
        # Dynamic programming over the words of `old`: `reached` maps each length of a prefix of `new` that `old[:at]`
        # can become to the fewest replacements for it. Several are possible where one replacement begins another.
        reached, at = {0: 0}, 0
        for (_, start, end), others in (word for word in words if word[0][0] == column):
            choices = [(old[at:end], 0), *((old[at:start] + other, 1) for other in others)]
            found: dict[int, int] = {}
            for place, count in reached.items():
                for piece, more in choices:
                    if new.startswith(piece, place):
                        after = place + len(piece)
                        found[after] = min(found.get(after, count + more), count + more)
            reached, at = found, end
        ends = [count for place, count in reached.items() if new[place:] == old[at:]]
        if not ends:
            return None
        total += min(ends)
    return total
