"""One example of the Geometry attack: the texts that its search has seen, and what both kinds of victims share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.shared import AttackedText

from rbench.substitution.search import BatchText, Gradients, Scores, Slot, Words


class GeometryExample(ABC):
    """The callables of the search for one example. It keeps the texts and goal function results seen so far.

    A subclass says what depends on the victim.

    Args:
        method: the `GeometrySearch`.
        initial: the goal function's result for the original text.
    """

    def __init__(self, method: Any, initial: Any) -> None:
        self.method, self.initial = method, initial
        self.results: dict[Words, Any] = {tuple(initial.attacked_text.words): initial}
        self.texts: dict[Words, AttackedText] = {tuple(initial.attacked_text.words): initial.attacked_text}

    @abstractmethod
    def gradients(self, batch: list[BatchText]) -> Gradients:
        """Return sentence vectors, directions and norms of words. Each text counts as a query."""

    @abstractmethod
    def directions(self, batch: list[BatchText]) -> Gradients:
        """As `gradients` without norms. It asks nothing: the victim's answers to these texts are known."""

    @abstractmethod
    def scores(self, batch: list[BatchText]) -> Scores:
        """Return the sentence vectors of candidates, and whether they reach the goal."""

    def candidates(self, batch: list[Slot]) -> list[list[str]]:
        free = {words: set(self.method.get_indices_to_order(self.texts[words])[1]) for _, words, _ in batch}
        slots = [slot for slot in batch if slot.place in free[slot.words]]
        ranked = self.method.transformation.replacements([(self.texts[s.words], s.place) for s in slots])
        for slot, words in zip(slots, ranked, strict=True):
            if not words and (asked := getattr(self.method, "asked", None)) is not None:
                asked.nothing_for(self.texts[slot.words], slot.place)  # `_allowed` counts the other words
        kept = {slot: self._allowed(slot, words) for slot, words in zip(slots, ranked, strict=True) if words}
        return [kept.get(slot, []) for slot in batch]

    def _allowed(self, slot: Slot, ranked: list[str]) -> list[str]:
        """Return candidates that pass the constraints, most probable first, at most as many as the budget allows."""
        text, place = self.texts[slot.words], slot.place
        changed = self.method.get_transformations(
            text, original_text=self.initial.attacked_text, indices_to_modify=[place]
        )
        found = {new.words[place]: new for new in changed}
        kept = [word for word in ranked if word in found][: int(min(self.method._left(), len(ranked)))]
        self.texts.update((tuple(found[word].words), found[word]) for word in kept)
        return kept

    def asked(self, batch: list[BatchText]) -> tuple[list[bool], bool]:
        """Query the victim. Return for each text whether it reaches the goal, and whether this was the last round."""
        results, _ = self.method.get_goal_results([self.texts[s.words] for s in batch])
        self.results.update((s.words, result) for s, result in zip(batch, results, strict=True))
        flipped = [result.goal_status == GoalFunctionResultStatus.SUCCEEDED for result in results]
        # A round costs a candidate, and a gradient pass where the words are ordered anew.
        costs = 1 if self.method.settings.order == "once" else 2
        return flipped, self.method._left() < costs
