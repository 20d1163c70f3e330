"""Wrap a source of candidates as a TextAttack transformation, and define the control attack that picks at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from textattack import Attack
from textattack.constraints.pre_transformation import InputColumnModification, RepeatModification, StopwordModification
from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.goal_functions import UntargetedClassification
from textattack.search_methods import SearchMethod
from textattack.shared import AttackedText
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench.words.substitution.candidates import ProposeWords, open_source
from rbench.words.substitution.options import AttackOptions, at_most
from rbench.words.substitution.segmentation import WordSpan, span_in_joined

VERSION = 1


def word_spans(text: AttackedText) -> list[WordSpan]:
    """Return the position of each of TextAttack's words, in order: (column, start, end) in the text of its column."""
    spans = []
    for column, (part, words) in enumerate(zip(text._text_input.values(), text.words_per_input, strict=True)):
        end = 0
        for word in words:
            start = part.index(word, end)
            end = start + len(word)
            spans.append((column, start, end))
    return spans


class WordSwapCandidates(WordSwap):  # type: ignore[misc]
    """Replaces a word by each of its candidates (`rbench.words.substitution.candidates`).

    A masked language model reads all columns as one text, as in TextAttack's own transformations.
    """

    def __init__(self, source: ProposeWords) -> None:
        super().__init__()
        self.source = source

    def replacements(self, wanted: Sequence[tuple[AttackedText, int]]) -> list[list[str]]:
        """Return the candidates for each pair (text, word index), the best first, computed in one batch."""
        return self.source([span_in_joined([*text._text_input.values()], word_spans(text)[i]) for text, i in wanted])

    def _get_transformations(self, current_text: AttackedText, indices_to_modify: set[int]) -> list[AttackedText]:
        indices = sorted(indices_to_modify)
        replies = self.replacements([(current_text, index) for index in indices])
        texts = (
            current_text.replace_word_at_index(index, word)
            for index, words in zip(indices, replies, strict=True)
            for word in words
        )
        return [text for text in texts if text.num_words == current_text.num_words]


class RandomSubstitution(SearchMethod):  # type: ignore[misc]
    """A control: replaces words in random order, each by a random candidate, and keeps every replacement.

    The search stops when the prediction changes, after as many replacements as `word_budget` allows, when all words are
    tried, or when the query budget is spent. A replacement costs one query. Random numbers come from numpy's global
    generator.
    """

    is_black_box = True

    def __init__(self, options: AttackOptions) -> None:
        self.options = options

    def perform_search(self, initial_result: Any) -> Any:
        result = initial_result
        _, free = self.get_indices_to_order(initial_result.attacked_text)
        changed, budget = 0, word_budget(self, initial_result.attacked_text, self.options)
        for index in np.random.permutation(sorted(free)).tolist():
            if changed >= budget:
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
        return ["options"]


def word_budget(search: SearchMethod, text: AttackedText, options: AttackOptions) -> int:
    """Return how many words of a text may be replaced: min(`max_words`, `share` * L), rounded down.

    L counts the words of the columns that no constraint protects, stop words and words without candidates included.
    """
    attack = search.attack
    columns = [c for c in attack.pre_transformation_constraints if isinstance(c, InputColumnModification)]
    counted = set(range(text.num_words)).intersection(*(c(text, attack.transformation) for c in columns))
    return at_most(options.max_words, options.share)(len(counted))


def make_transformation(resources: Any, options: AttackOptions) -> WordSwapCandidates:
    """Return the transformation with a set's resources."""
    return WordSwapCandidates(open_source(resources, **options.of_source))


def substitution_attack(victim: Any, resources: Any, transformation: WordSwap, search: SearchMethod) -> Attack:
    """Return an untargeted attack that replaces no stop word, and no word twice. Callers may add constraints.

    Its search finds it as `attack`, for `word_budget`.
    """
    constraints = [RepeatModification(), StopwordModification(stopwords=resources.stopwords)]
    search.attack = Attack(UntargetedClassification(victim), constraints, transformation, search)
    return search.attack


def build_random(victim: Any, resources: Any, options: AttackOptions) -> Attack:
    """Build the control attack of `attacks/random.py`."""
    return substitution_attack(victim, resources, make_transformation(resources, options), RandomSubstitution(options))
