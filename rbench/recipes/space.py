"""Attacks in a declared space (`rbench.schema.Space`): TextAttack's searches, and the search that is complete.

All searches use the same transformation, whose replacements of a word depend on the original text alone. So with the
same limit on words all of them can reach the same texts, and a text that one search finds is one that another missed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from typing import Any, Literal

from textattack import Attack
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.constraints.pre_transformation import RepeatModification
from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.goal_functions import UntargetedClassification
from textattack.search_methods import BeamSearch, GreedyWordSwapWIR, SearchMethod
from textattack.shared import AttackedText
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench.schema import Space
from rbench.words.substitution.space import SpaceSubstitutions

VERSION = 1

SearchOrder = Literal["deletion", "pwws", "greedy", "beam", "gradient", "random"]
_RANKING_METHODS: dict[SearchOrder, str] = {"deletion": "delete", "gradient": "gradient", "random": "random"}
BATCH_SIZE = 256
"""Size of a batch of combinations. The most promising come first, and a batch with one that flips is the last."""


class WordSwapInSpace(WordSwap):  # type: ignore[misc]
    """Replaces a word by each of its substitutions in the original text."""

    def __init__(self, substitutions: SpaceSubstitutions) -> None:
        super().__init__()
        self.substitutions = substitutions
        self._last: tuple[tuple[str, ...], list[tuple[str, ...]]] = ((), [])

    def of(self, text: AttackedText) -> list[tuple[str, ...]]:
        """Return the substitutions of each word of the text that this one was made of.

        Raises ValueError where TextAttack sees other words in it than rbench (Chinese).
        """
        while (previous := text.attack_attrs.get("previous_attacked_text")) is not None:
            text = previous
        columns = tuple(text._text_input.values())
        if columns != self._last[0]:
            self._last = (columns, self.substitutions(columns))
        if len(self._last[1]) != text.num_words:
            raise ValueError("a declared space needs a language that separates its words by spaces")
        return self._last[1]

    def _get_transformations(self, current_text: AttackedText, indices_to_modify: set[int]) -> list[AttackedText]:
        substitutions = self.of(current_text)
        return [
            current_text.replace_word_at_index(i, new) for i in sorted(indices_to_modify) for new in substitutions[i]
        ]


class CompleteSearch(SearchMethod):  # type: ignore[misc]
    """Queries the victim with every text of a space, first with one word replaced, then with two, until one flips.

    All texts with one word replaced are queried at once. The drop of such a replacement is by how much it lowers the
    probability of the label. Texts with several replacements follow in the order of the sum of their drops, largest
    first, until the query budget is spent. The search ends with the number of words at which a text flips.

    Attributes:
        robust_words: the largest number of replaced words up to which every text was queried and none flipped.
        texts_left: number of texts that were not queried because the budget was spent; 0 after a success.
    """

    is_black_box = True
    attack: Attack

    def __init__(self, space: Space) -> None:
        self.space = space
        self.robust_words, self.texts_left = 0, 0

    def perform_search(self, initial_result: Any) -> Any:
        original = initial_result.attacked_text
        texts = self.get_transformations(original, original_text=original)
        self._ones, self._places = texts, [_changed_place(text) for text in texts]
        # All single replacements first: their drops order everything that follows.
        results, over = self.get_goal_results(texts) if texts else ([], False)
        best = max([initial_result, *results], key=damage_of)
        drops = [result.score - initial_result.score for result in results]
        unqueried = [
            len(texts) - len(results)
        ]  # by number of words, from one: the texts that the budget left unqueried
        max_words = min(
            [self.space.max_words, *(getattr(constraint, "max_words", inf) for constraint in self.attack.constraints)]
        )
        while not is_flipped(best) and len(unqueried) < max_words:
            best, over, num_left = self._several(len(unqueried) + 1, drops, best, over)
            unqueried.append(num_left)
        # Robustness ends before the first number of words with texts left, and before the one at which a text flipped.
        complete = next((size for size, num_left in enumerate(unqueried) if num_left), len(unqueried))
        # A flip with n words replaced says nothing about n words; all texts with n - 1 words were queried before.
        self.robust_words = min(complete, len(unqueried) - 1) if is_flipped(best) else complete
        self.texts_left = 0 if is_flipped(best) else sum(unqueried)
        return best

    def _several(self, size: int, drops: Sequence[float], best: Any, over: bool) -> tuple[Any, bool, int]:
        """Query texts with `size` words replaced. Return the best result, whether the budget is spent, and
        how many texts are left.
        """
        num_left = count_combinations(self._places, size)
        # Drops are missing only if the budget ran out among single replacements; then nothing more can be queried.
        choices = choose_best_first(self._places, drops, size) if len(drops) == len(self._places) else iter(())
        while not over and not is_flipped(best) and (batch := list(islice(choices, BATCH_SIZE))):
            results, over = self.get_goal_results([_combine_texts(self._ones, chosen) for chosen in batch])
            num_left -= len(results)
            best = max([best, *results], key=damage_of)
        return best, over, num_left

    def extra_repr_keys(self) -> list[str]:
        return ["space"]


def damage_of(result: Any) -> tuple[bool, float]:
    """Order results by the damage that is done: those that flip the prediction come last."""
    return is_flipped(result), float(result.score)


def is_flipped(result: Any) -> bool:
    """Whether a text changes the prediction."""
    return bool(result.goal_status == GoalFunctionResultStatus.SUCCEEDED)


def _changed_place(text: AttackedText) -> int:
    (place,) = text.attack_attrs["newly_modified_indices"]
    return int(place)


def _combine_texts(texts: Sequence[AttackedText], chosen: Sequence[int]) -> AttackedText:
    """Return the text with all replacements of some texts with one word replaced."""
    first, *others = chosen
    combined = texts[first]
    for other in others:
        place = _changed_place(texts[other])
        combined = combined.replace_word_at_index(place, texts[other].words[place])
    return combined


def count_combinations(places: Sequence[int], size: int) -> int:
    """Return how many ways there are to choose `size` of some replacements, each of another word.

    Args:
        places: the index of the word that each replacement replaces.
        size: how many words are replaced.
    """
    num_ways = [1] + [0] * size  # the elementary symmetric polynomial of the numbers of replacements, by degree
    for place in set(places):
        count = places.count(place)
        # The degrees are updated from the highest down, so that each word contributes one replacement at most.
        for degree in range(size, 0, -1):
            num_ways[degree] += count * num_ways[degree - 1]
    return num_ways[size]


def choose_best_first(places: Sequence[int], drops: Sequence[float], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to choose `size` replacements of different words, the largest sum of drops first.

    Args:
        places: the index of the word that each replacement replaces.
        drops: by how much each replacement alone lowers the probability of the label.
        size: how many words are replaced.
    """
    # With replacements ranked by their drops, choices are tuples of increasing ranks. From the best choice (0, 1, ...)
    # every other one is reached by moving one rank up by one, which never raises the sum. So a heap of the successors
    # of all choices seen yields them in order, without making all of them first.
    ranked = sorted(range(len(places)), key=lambda i: -drops[i])
    if len(ranked) < size:
        return
    first = tuple(range(size))
    heap, pushed = [(-sum(drops[ranked[i]] for i in first), first)], {first}
    while heap:
        _, chosen = heapq.heappop(heap)
        replacements = tuple(ranked[i] for i in chosen)
        if len({places[i] for i in replacements}) == size:
            yield replacements
        for j, i in enumerate(chosen):
            if i + 1 < (chosen[j + 1] if j + 1 < size else len(ranked)):
                step = (*chosen[:j], i + 1, *chosen[j + 1 :])
                if step not in pushed:
                    pushed.add(step)
                    heapq.heappush(heap, (-sum(drops[ranked[k]] for k in step), step))


def build(victim: Any, resources: Any, space: Space, search: SearchMethod) -> Attack:
    """Build an untargeted attack on `victim` whose search runs inside a space."""
    constraints = [RepeatModification(), MaxWordsPerturbed(max_num_words=space.max_words)]
    transformation = WordSwapInSpace(SpaceSubstitutions(space, resources))
    search.attack = Attack(UntargetedClassification(victim), constraints, transformation, search)
    return search.attack


def searched(order: SearchOrder) -> SearchMethod:
    """Return one of TextAttack's searches."""
    if order in _RANKING_METHODS:
        return GreedyWordSwapWIR(wir_method=_RANKING_METHODS[order])
    if order == "pwws":
        return GreedyWordSwapWIR(wir_method="weighted-saliency", unk_token="[UNK]")
    return BeamSearch(beam_width=1 if order == "greedy" else 8)
