"""TextAttack's view of masked-LM candidates, and the control attack that takes them at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from textattack import Attack
from textattack.constraints.pre_transformation import RepeatModification, StopwordModification
from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.goal_functions import UntargetedClassification
from textattack.search_methods import SearchMethod
from textattack.shared import AttackedText
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench.substitution.candidates import MaskedWords
from rbench.substitution.segmentation import Span

VERSION = 1


def word_spans(text: AttackedText) -> list[Span]:
    """Where each of TextAttack's words lies: (column, start, end) in the text of its column, in order."""
    spans = []
    for column, (part, words) in enumerate(zip(text._text_input.values(), text.words_per_input, strict=True)):
        end = 0
        for word in words:
            start = part.index(word, end)
            end = start + len(word)
            spans.append((column, start, end))
    return spans


class WordSwapMaskedWords(WordSwap):  # type: ignore[misc]
    """Replaces a word by each of its candidates (`rbench.substitution.candidates`).

    The masked language model reads all columns as one text, as it does in TextAttack's own transformations.
    """

    def __init__(self, masked_words: MaskedWords) -> None:
        super().__init__()
        self.masked_words = masked_words

    def replacements(self, wanted: Sequence[tuple[AttackedText, int]]) -> list[list[str]]:
        """For each (text, index of a word) its candidates, most probable first; all in one batch."""
        return self.masked_words([(text.text, *_place(text, index)) for text, index in wanted])

    def _get_transformations(self, current_text: AttackedText, indices_to_modify: set[int]) -> list[AttackedText]:
        indices = sorted(indices_to_modify)
        replies = self.replacements([(current_text, index) for index in indices])
        texts = (
            current_text.replace_word_at_index(index, word)
            for index, words in zip(indices, replies, strict=True)
            for word in words
        )
        return [text for text in texts if text.num_words == current_text.num_words]


def _place(text: AttackedText, index: int) -> tuple[int, int]:
    """First and last character (exclusive) of a word in the joined text."""
    column, start, end = word_spans(text)[index]
    before = sum(len(part) + 1 for part in list(text._text_input.values())[:column])
    return before + start, before + end


class RandomSubstitution(SearchMethod):  # type: ignore[misc]
    """A control: words in random order, each replaced by a random candidate that is kept whatever the victim says.

    Stops when the prediction flips, after `max_words` substitutions, or when the words or the query budget are spent.
    Draws from numpy's global generator; one query a substitution.
    """

    is_black_box = True

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words

    def perform_search(self, initial_result: Any) -> Any:
        result = initial_result
        _, free = self.get_indices_to_order(initial_result.attacked_text)
        changed = 0
        for index in np.random.permutation(sorted(free)).tolist():
            if changed == self.max_words:
                break
            texts = self.get_transformations(
                result.attacked_text, original_text=initial_result.attacked_text, indices_to_modify=[index]
            )
            if not texts:
                continue
            results, over = self.get_goal_results([texts[np.random.randint(len(texts))]])
            result = results[0] if results else result
            changed += 1
            if over or result.goal_status == GoalFunctionResultStatus.SUCCEEDED:
                break
        return result

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


def substitution_attack(victim: Any, resources: Any, transformation: WordSwap, search: SearchMethod) -> Attack:
    """Untargeted word substitution: no stop word and no word twice. More constraints may be added by the caller."""
    constraints = [RepeatModification(), StopwordModification(stopwords=resources.stopwords)]
    return Attack(UntargetedClassification(victim), constraints, transformation, search)


def swaps(resources: Any, **options: Any) -> WordSwapMaskedWords:
    """The transformation over a profile's masked language model and word vectors; `options` are MaskedWords'."""
    vectors = resources.word_vectors
    return WordSwapMaskedWords(MaskedWords(resources.masked_lm, vectors.index, vectors.unit, **options))


def build_random(victim: Any, resources: Any, *, max_words: int, **candidates: Any) -> Attack:
    """The control attack of `attacks/random.py`; `candidates` are MaskedWords' options."""
    return substitution_attack(victim, resources, swaps(resources, **candidates), RandomSubstitution(max_words))
