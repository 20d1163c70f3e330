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
from rbench.words.substitution.space import Substitutions

VERSION = 1

Order = Literal["deletion", "pwws", "greedy", "beam", "gradient", "random"]
_ORDERS: dict[Order, str] = {"deletion": "delete", "gradient": "gradient", "random": "random"}
BATCH = 256
"""Size of a batch of combinations. The most promising come first, and a batch with one that flips is the last."""


class InSpace(WordSwap):  # type: ignore[misc]
    """Replaces a word by each of its substitutions in the original text."""

    def __init__(self, substitutions: Substitutions) -> None:
        super().__init__()
        self.substitutions = substitutions
        self._last: tuple[tuple[str, ...], list[tuple[str, ...]]] = ((), [])

    def of(self, text: AttackedText) -> list[tuple[str, ...]]:
        """Return the substitutions of each word of the text that this one was made of.

        Raises ValueError where TextAttack sees other words in it than rbench (Chinese).
        """
        while (before := text.attack_attrs.get("previous_attacked_text")) is not None:
            text = before
        columns = tuple(text._text_input.values())
        if columns != self._last[0]:
            self._last = (columns, self.substitutions(columns))
        if len(self._last[1]) != text.num_words:
            raise ValueError("a declared space needs a language that separates its words by spaces")
        return self._last[1]

    def _get_transformations(self, current_text: AttackedText, indices_to_modify: set[int]) -> list[AttackedText]:
        found = self.of(current_text)
        return [current_text.replace_word_at_index(i, new) for i in sorted(indices_to_modify) for new in found[i]]


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
        self._ones, self._places = texts, [_changed(text) for text in texts]
        results, over = self.get_goal_results(texts) if texts else ([], False)
        best = max([initial_result, *results], key=rank)
        drops = [result.score - initial_result.score for result in results]
        left = [len(texts) - len(results)]  # by number of words, from one: the texts that the budget left unqueried
        most = min([self.space.max_words, *(getattr(one, "max_words", inf) for one in self.attack.constraints)])
        while not flipped(best) and len(left) < most:
            best, over, more = self._several(len(left) + 1, drops, best, over)
            left.append(more)
        # Robustness ends before the first number of words with texts left, and before the one at which a text flipped.
        complete = next((size for size, more in enumerate(left) if more), len(left))
        self.robust_words = min(complete, len(left) - 1) if flipped(best) else complete
        self.texts_left = 0 if flipped(best) else sum(left)
        return best

    def _several(self, size: int, drops: Sequence[float], best: Any, over: bool) -> tuple[Any, bool, int]:
        """Query texts with `size` words replaced. Return the best result, whether the budget is spent, and
        how many texts are left.
        """
        left = combinations_of(self._places, size)
        # Drops are missing only if the budget ran out among single replacements; then nothing more can be queried.
        order = best_first(self._places, drops, size) if len(drops) == len(self._places) else iter(())
        while not over and not flipped(best) and (batch := list(islice(order, BATCH))):
            results, over = self.get_goal_results([_together(self._ones, chosen) for chosen in batch])
            left -= len(results)
            best = max([best, *results], key=rank)
        return best, over, left

    def extra_repr_keys(self) -> list[str]:
        return ["space"]


def rank(result: Any) -> tuple[bool, float]:
    """Order results by the damage that is done: those that flip the prediction come last."""
    return flipped(result), float(result.score)


def flipped(result: Any) -> bool:
    """Whether a text changes the prediction."""
    return bool(result.goal_status == GoalFunctionResultStatus.SUCCEEDED)


def _changed(text: AttackedText) -> int:
    (place,) = text.attack_attrs["newly_modified_indices"]
    return int(place)


def _together(texts: Sequence[AttackedText], chosen: Sequence[int]) -> AttackedText:
    """Return the text with all replacements of some texts with one word replaced."""
    first, *others = chosen
    made = texts[first]
    for other in others:
        place = _changed(texts[other])
        made = made.replace_word_at_index(place, texts[other].words[place])
    return made


def combinations_of(places: Sequence[int], size: int) -> int:
    """Return how many ways there are to choose `size` of some replacements, each of another word.

    Args:
        places: the index of the word that each replacement replaces.
        size: how many words are replaced.
    """
    ways = [1] + [0] * size  # the elementary symmetric polynomial of the numbers of replacements, by degree
    for place in set(places):
        count = places.count(place)
        # The degrees are updated from the highest down, so that each word contributes one replacement at most.
        for degree in range(size, 0, -1):
            ways[degree] += count * ways[degree - 1]
    return ways[size]


def best_first(places: Sequence[int], drops: Sequence[float], size: int) -> Iterator[tuple[int, ...]]:
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
    heap, seen = [(-sum(drops[ranked[i]] for i in first), first)], {first}
    while heap:
        _, chosen = heapq.heappop(heap)
        found = tuple(ranked[i] for i in chosen)
        if len({places[i] for i in found}) == size:
            yield found
        for j, i in enumerate(chosen):
            if i + 1 < (chosen[j + 1] if j + 1 < size else len(ranked)):
                step = (*chosen[:j], i + 1, *chosen[j + 1 :])
                if step not in seen:
                    seen.add(step)
                    heapq.heappush(heap, (-sum(drops[ranked[k]] for k in step), step))


def build(victim: Any, resources: Any, space: Space, search: SearchMethod) -> Attack:
    """Build an untargeted attack on `victim` whose search runs inside a space."""
    constraints = [RepeatModification(), MaxWordsPerturbed(max_num_words=space.max_words)]
    transformation = InSpace(Substitutions(space, resources))
    search.attack = Attack(UntargetedClassification(victim), constraints, transformation, search)
    return search.attack


def searched(order: Order) -> SearchMethod:
    """Return one of TextAttack's searches."""
    if order in _ORDERS:
        return GreedyWordSwapWIR(wir_method=_ORDERS[order])
    if order == "pwws":
        return GreedyWordSwapWIR(wir_method="weighted-saliency", unk_token="[UNK]")
    return BeamSearch(beam_width=1 if order == "greedy" else 8)
