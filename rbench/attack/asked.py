"""Count the words that an attack asked candidates for, and those that never had one after its constraints.

A word counts as asked if the search asked for texts in which it is replaced while the attack's rules allowed to change
it: stop words, protected columns, words changed before and words past a limit on changes do not count. It counts as
without a candidate if no such request gave any text. So a word that has a candidate beside some replacements and none
beside others has one. docs/health.md derives from these counts when an attack is starved of candidates.

Most searches ask for one word at a time. Where one asks for several at once, the texts tell which words they change.
The counts cannot be told, and are None, where texts have another number of words than before, and where the
transformation itself picks few words out of many by their gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from textattack import Attack
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.transformations import WordSwapGradientBased

from rbench.attack.constraints import EnoughWordsPerturbed


def watch(attack: Attack) -> Attack:
    """Return the attack, which from now on counts in `attack.asked` what its search asks for. No outcome changes.

    An attack of a class of its own, whose search does not ask in TextAttack's way, is returned as it is.
    """
    get = getattr(getattr(attack, "search_method", None), "get_transformations", None)
    if get is None:
        return attack
    asked = Asked(attack)
    attack.asked = attack.search_method.asked = asked

    def watched(current_text: Any, original_text: Any = None, **kwargs: Any) -> Any:
        texts = get(current_text, original_text, **kwargs)
        asked.answered(current_text, texts, kwargs.get("indices_to_modify"), bool(kwargs.get("shifted_idxs")))
        return texts

    attack.search_method.get_transformations = watched
    return attack


class Asked:
    """The words of one example that an attack asked candidates for."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self.clear()

    def clear(self) -> None:
        """Forget everything, for the next example."""
        self._had: dict[int, bool] = {}
        self._told = True

    @property
    def counts(self) -> tuple[int | None, int | None]:
        """How many words were asked for, and how many of them never had a candidate; None where it cannot be told."""
        if not self._told:
            return None, None
        return len(self._had), sum(not had for had in self._had.values())

    def answered(self, text: Any, made: Sequence[Any], indices: Iterable[int] | None, shifted: bool = False) -> None:
        """Count one request and its answer.

        Args:
            text: the text (an AttackedText) whose words were to be replaced.
            made: the texts made of it that pass the constraints.
            indices: the indices of the words that were asked for; None: all words.
            shifted: whether the indices are those of the original text.
        """
        if not self._told:
            return
        try:
            places = None if indices is None else [int(index) for index in indices]
            if places is not None and shifted:
                places = list(text.convert_from_original_idxs(places))
            if places is not None and len(places) == 1:
                self._one(text, bool(made), places[0])
            else:
                self._several(text, made, places)
        except Exception:  # texts of somebody's own making: counting must not end their attack
            self._told = False

    def nothing_for(self, text: Any, index: int) -> None:
        """Count a word that the search may change, and for which there were no words before any constraint."""
        if (word := _original(text, index)) is not None:
            self._had.setdefault(word, False)

    def _one(self, text: Any, had: bool, index: int) -> None:
        word = _original(text, index)
        if word is None or (not had and (word in self._had or not self._open(text, [index]))):
            return
        self._had[word] = had

    def _several(self, text: Any, made: Sequence[Any], places: list[int] | None) -> None:
        changed = [new.attack_attrs.get("newly_modified_indices", ()) for new in made]
        same_length = all(new.num_words == text.num_words for new in made)
        if isinstance(self._attack.transformation, WordSwapGradientBased) or not (
            same_length and all(len(indices) == 1 for indices in changed)
        ):
            self._told = False
            return
        had = {int(index) for (index,) in changed}
        for index in had | self._open(text, places):
            if (word := _original(text, index)) is not None:
                self._had[word] = index in had or self._had.get(word, False)

    def _open(self, text: Any, places: list[int] | None) -> set[int]:
        """Return those of some words of a text (None: of all) that the attack may change."""
        asked = {} if places is None else {"indices_to_modify": places}
        _, found = self._attack.get_indices_to_order(text, **asked)
        allowed = {int(index) for index in found}
        for limit in self._attack.constraints:
            if type(limit) is MaxWordsPerturbed:
                allowed &= EnoughWordsPerturbed(limit)._get_modifiable_indices(text)
        return allowed


def _original(text: Any, index: int) -> int | None:
    """Return the index in the original text of a word of a text made of it; None where it was inserted."""
    if "previous_attacked_text" not in text.attack_attrs:
        return index
    found = np.flatnonzero(text.attack_attrs["original_index_map"] == index)
    return int(found[0]) if len(found) else None
