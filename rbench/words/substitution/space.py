"""The substitutions of a declared space (`rbench.schema.Space`) for one text, word by word."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rbench.schema import Space
from rbench.words.substitution.candidates import NeighbourWords
from rbench.words.substitution.segmentation import Columns, copy_case, find_words

VERSION = 1

TAGGED_AROUND = 4
"""Words before and after a word that the tagger sees with it, as in TextAttack's PartOfSpeech."""
_INTERCHANGEABLE = {"NOUN", "VERB"}


class SpaceSubstitutions:
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
        self._neighbours = NeighbourWords(vectors, candidates=space.k, min_cosine=space.cosine) if vectors else None

    def __call__(self, columns: Columns, protected: Collection[int] = ()) -> list[tuple[str, ...]]:
        """Return for each word of a text, in order, its replacements, the best first.

        Args:
            columns: the text; its words are those of `segmentation.find_words`.
            protected: numbers of columns in which no word is replaced.
        """
        spans = find_words(columns)
        words = [columns[column][start:end] for column, start, end in spans]
        replacements: list[tuple[str, ...]] = []
        for place, (column, start, end) in enumerate(spans):
            word = words[place]
            if column in protected or word.lower() in self._stopwords:
                replacements.append(())
                continue
            # A replacement that is not exactly one word by rbench's rules would shift the places of all later words.
            proposed = [
                new for new in self._propose(columns[column], start, end) if find_words((new,)) == [(0, 0, len(new))]
            ]
            distinct = [new for new in dict.fromkeys(proposed) if new.lower() != word.lower()]
            replacements.append(tuple(self._keep_same_part(words, place, distinct)))
        return replacements

    def _propose(self, text: str, start: int, end: int) -> list[str]:
        if self.space.candidates == "counterfitted":
            assert self._neighbours is not None  # `needed` has the vectors
            return self._neighbours([(text, start, end)])[0]
        word = text[start:end]
        others = [copy_case(word, other) for other in self.resources.synonyms(word.lower())[: self.space.k]]
        return [other for other in others if self._near(word.lower(), other.lower())]

    def _near(self, word: str, other: str) -> bool:
        if self.space.cosine is None:
            return True
        index, unit = self._vectors.index, self._vectors.unit
        have_vectors = word in index and other in index
        return have_vectors and float(unit[index[word]] @ unit[index[other]]) >= self.space.cosine

    def _keep_same_part(self, words: Sequence[str], place: int, others: list[str]) -> list[str]:
        if not self.space.pos or not others:
            return others
        # The context stays as it is: in TextAttack too, the tag of a replacement is that beside the original words.
        first = max(0, place - TAGGED_AROUND)
        before, after = words[first:place], words[place + 1 : place + 1 + TAGGED_AROUND]
        tag = self._tag(before, words[place], after)
        return [other for other in others if self._fits(tag, self._tag(before, other, after))]

    def _tag(self, before: Sequence[str], word: str, after: Sequence[str]) -> str:
        return str(self.resources.pos_tag([*before, word, *after], len(before)))

    @staticmethod
    def _fits(tag: str, other: str) -> bool:
        return tag == other or {tag, other} <= _INTERCHANGEABLE


def count_replacements(original: Columns, changed: Columns, replacements: Sequence[Collection[str]]) -> int | None:
    """Return the smallest number of replacements that turn a text into another one; None where none do.

    Args:
        original: the text.
        changed: the other one.
        replacements: for each word of the text its replacements, as `SpaceSubstitutions` gives them.
    """
    if len(changed) != len(original):
        return None
    words, total = list(zip(find_words(original), replacements, strict=True)), 0
    for column, (old, new) in enumerate(zip(original, changed, strict=True)):
        # Dynamic programming over the words of `old`: `reached` maps each length of a prefix of `new` that `old` up to
        # the last word can become to the fewest replacements for it. Several are possible where one replacement begins
        # another.
        reached, end_of_last = {0: 0}, 0
        for (word_column, start, end), others in words:
            if word_column != column:
                continue
            choices = [(old[end_of_last:end], 0), *((old[end_of_last:start] + other, 1) for other in others)]
            reached_next: dict[int, int] = {}
            for place, count in reached.items():
                for piece, cost in choices:
                    if new.startswith(piece, place):
                        after = place + len(piece)
                        reached_next[after] = min(reached_next.get(after, count + cost), count + cost)
            reached, end_of_last = reached_next, end
        ends = [count for place, count in reached.items() if new[place:] == old[end_of_last:]]
        if not ends:
            return None
        total += min(ends)
    return total
