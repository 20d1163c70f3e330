"""The ensemble behind the attack `strongest`: searches of one declared space, cheap ones first, one after the other.

A search begins where those before it found nothing, and all of them share the queries of a text. Only texts of the
space count: the searches by deletion and by saliency also ask for texts without a word, which belong to no space.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf
from typing import Any, Literal

from textattack import Attack
from textattack.search_methods import AlzantotGeneticAlgorithm, ParticleSwarmOptimization, SearchMethod
from textattack.shared import AttackedText

from rbench.recipes.space import CompleteSearch, WordSwapInSpace, count_combinations, damage_of, is_flipped, searched
from rbench.schema import STRONGEST_BUDGET, Space

VERSION = 1

PATIENCE = 20
"""After so many words that made nothing better, the local search begins again."""
WideSearch = Literal["local", "genetic", "swarm"]


class _SearchOver(Exception):
    """A text of the space flips, or the queries are spent."""


class Strongest(SearchMethod):  # type: ignore[misc]
    """Deletion order, PWWS's order, a beam of 8, a local search, and the complete search.

    The local search is left out where all texts of the space can be asked, and gets half of the queries that are left
    otherwise. The complete search gets the rest, best first.

    Args:
        space: what is declared.
        wide: the search between the beam and the complete one; others than the default are for measurements.
    """

    is_black_box = True
    attack: Attack

    def __init__(self, space: Space, wide: WideSearch = "local") -> None:
        self.space, self.wide = space, wide

    def perform_search(self, initial_result: Any) -> Any:
        self.begin(initial_result)
        try:
            for search in (searched("deletion"), searched("pwws"), searched("beam")):
                self._run(search, initial_result, self._budget)
            texts = self.get_transformations(self._original, original_text=self._original)
            places = [next(iter(text.attack_attrs["newly_modified_indices"])) for text in texts]
            size = sum(count_combinations(places, words) for words in range(1, self._allowed + 1))
            remaining = self._budget - self.goal_function.num_queries
            if size > remaining:
                self.search_widely(initial_result, self.goal_function.num_queries + remaining // 2)
            self._run(CompleteSearch(self.space), initial_result, self._budget)
        except _SearchOver:
            pass
        return self._best

    def begin(self, initial_result: Any) -> None:
        """Look at a text before any search of it."""
        self._original, self._best = initial_result.attacked_text, initial_result
        self._words = [{*substitutions} for substitutions in _space_of(self.attack).of(self._original)]
        limits = (getattr(constraint, "max_words", self.space.max_words) for constraint in self.attack.constraints)
        self._allowed = int(min([self.space.max_words, *limits]))
        budget = self.goal_function.query_budget
        self._budget = budget if budget < inf else STRONGEST_BUDGET

    def search_widely(self, initial_result: Any, until: float) -> None:
        """Run the search between the beam and the complete one until so many queries were asked."""
        wide: dict[WideSearch, SearchMethod] = {
            "local": LocalSearch(self._allowed, PATIENCE),
            "genetic": AlzantotGeneticAlgorithm(),
            "swarm": ParticleSwarmOptimization(),
        }
        self._run(wide[self.wide], initial_result, until)

    def _run(self, search: SearchMethod, initial_result: Any, until: float) -> None:
        """Run a search until so many queries were asked. Raises _Over where a text flips, or no query is left."""
        # The search is given this object's methods, so that all searches share one budget and one best text.
        for name in ("get_transformations", "goal_function", "filter_transformations", "get_indices_to_order"):
            setattr(search, name, getattr(self, name))
        search.get_goal_results, search.attack, self._until = self._asked, self.attack, until
        try:
            search.perform_search(initial_result)
        except _SearchOver:
            if is_flipped(self._best) or self.goal_function.num_queries >= self._budget:
                raise

    def _asked(self, texts: Sequence[AttackedText]) -> tuple[list[Any], bool]:
        # The goal function enforces the whole budget only; a search that may spend a part of it is stopped here.
        remaining = int(min(self._until - self.goal_function.num_queries, len(texts)))
        results, over = self.get_goal_results(list(texts[:remaining])) if remaining > 0 else ([], True)
        self._best = max(
            [self._best, *(result for result in results if self._is_in_space(result.attacked_text))],
            key=damage_of,
        )
        if is_flipped(self._best) or over or remaining < len(texts):
            raise _SearchOver
        return results, over

    def _is_in_space(self, text: AttackedText) -> bool:
        """Whether a text is in the space."""
        original_words = self._original.words
        if len(text.words) != len(original_words):
            return False
        changed = [i for i, word in enumerate(text.words) if word != original_words[i]]
        return len(changed) <= self._allowed and all(text.words[i] in self._words[i] for i in changed)

    def extra_repr_keys(self) -> list[str]:
        return ["space"]


class LocalSearch(SearchMethod):  # type: ignore[misc]
    """Change one word at a time to its best replacement, taking another back where there are too many.

    It begins at a text with random replacements, and begins again where `patience` words made nothing better. It ends
    when whoever answers ends it.

    Args:
        words: how many words are replaced.
    """

    is_black_box = True

    def __init__(self, words: int, patience: int) -> None:
        self.words, self.patience = words, patience

    def perform_search(self, initial_result: Any) -> Any:
        original = initial_result.attacked_text
        choices: dict[int, list[str]] = {}
        for text in self.get_transformations(original, original_text=original):
            place = next(iter(text.attack_attrs["newly_modified_indices"]))
            choices.setdefault(place, []).append(text.words[place])
        places = sorted(choices)
        while len(places) > self.words:  # otherwise the complete search asks for all there are
            chosen = {place: random.choice(choices[place]) for place in random.sample(places, self.words)}
            ((best, *_), _) = self.get_goal_results([_replace_chosen(original, chosen)])
            for stale in range(self.patience * len(places)):
                place = random.choice(places)
                others = dict(chosen)
                if place not in others:
                    others.pop(random.choice(sorted(others)))
                neighbours = [others | {place: new} for new in choices[place]]
                results, _ = self.get_goal_results([_replace_chosen(original, neighbour) for neighbour in neighbours])
                best_index = max(range(len(neighbours)), key=lambda i, results=results: damage_of(results[i]))  # type: ignore[misc]
                if damage_of(results[best_index]) > damage_of(best):
                    best, chosen = results[best_index], neighbours[best_index]
                elif stale % self.patience == self.patience - 1:
                    break
        return initial_result

    def extra_repr_keys(self) -> list[str]:
        return ["words", "patience"]


def _replace_chosen(original: AttackedText, chosen: dict[int, str]) -> AttackedText:
    return original.replace_words_at_indices(list(chosen), list(chosen.values()))


def _space_of(attack: Attack) -> WordSwapInSpace:
    assert isinstance(attack.transformation, WordSwapInSpace)  # `space.build` made it
    return attack.transformation
