"""Observe an attack on one example: the words that it asks candidates for, and the victim's answers, for its steps.

A word counts as asked if the search asked for texts in which it is replaced while the attack's rules allowed to change
it: stop words, protected columns, words changed before and words past a limit on changes do not count. It counts as
without a candidate if no such request gave any text. So a word that has a candidate beside some replacements and none
beside others has one. docs/health.md derives from these counts when an attack is starved of candidates.

Most searches ask for one word at a time. Where one asks for several at once, the texts tell which words they change.
The counts cannot be told, and are None, where texts have another number of words than before, and where the
transformation itself picks few words out of many by their gradients.

A text of TextAttack's knows the text that it was made of. So the way from the original to the final text is there when
the search has ended, whatever the search. (A moment later it is gone: the result of an attack frees it.) The answers
are those that the search got: nothing is asked for the steps, and no query is counted.

A text on the way for which the search never asked is no step. Its change belongs to the next one, as where two words
are merged by two replacements. Where a search crosses two texts, the way is that of the text that TextAttack changed,
and the words of the other come in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from textattack import Attack
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.transformations import WordSwapGradientBased

from rbench.recipes.attacked import Truth
from rbench.recipes.cached import EnoughWordsPerturbed
from rbench.schema import Step
from rbench.system.changes import Texts, list_changes

SCORE_DECIMALS = 4
"""Decimals of a score. They are the same on every machine, but for ties; the last bits of an answer are not."""


def count_candidates(attack: Attack) -> Attack:
    """Return the attack, which from now on counts what its search asks for, in `attack.candidate_queries`.

    No outcome changes.

    An attack of a class of its own, whose search does not ask in TextAttack's way, is returned as it is.
    """
    get_transformations = getattr(getattr(attack, "search_method", None), "get_transformations", None)
    if get_transformations is None:
        return attack
    queries = CandidateQueries(attack)
    attack.candidate_queries = attack.search_method.candidate_queries = queries

    def watched(current_text: Any, original_text: Any = None, **kwargs: Any) -> Any:
        texts = get_transformations(current_text, original_text, **kwargs)
        queries.answered(current_text, texts, kwargs.get("indices_to_modify"), bool(kwargs.get("shifted_idxs")))
        return texts

    attack.search_method.get_transformations = watched
    return attack


class CandidateQueries:
    """The words of one example that an attack asked candidates for, and those that never had one."""

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
            if places is None or len(places) != 1:
                self._several(text, made, places)
                return
            word = _original_index(text, places[0])
            if word is None:
                return
            # A word without candidates now may have had some beside other replacements, which then stands.
            if made or (word not in self._had and self._open(text, places)):
                self._had[word] = bool(made)
        except Exception:  # texts of somebody's own making: counting must not end their attack
            self._told = False

    def nothing_for(self, text: Any, index: int) -> None:
        """Count a word that the search may change, and for which there were no words before any constraint."""
        if (word := _original_index(text, index)) is not None:
            self._had.setdefault(word, False)

    def _several(self, text: Any, made: Sequence[Any], places: list[int] | None) -> None:
        changed = [new.attack_attrs.get("newly_modified_indices", ()) for new in made]
        same_length = all(new.num_words == text.num_words for new in made)
        if isinstance(self._attack.transformation, WordSwapGradientBased) or not (
            same_length and all(len(indices) == 1 for indices in changed)
        ):
            self._told = False
            return
        with_candidates = {int(index) for (index,) in changed}
        for index in with_candidates | self._open(text, places):
            if (word := _original_index(text, index)) is not None:
                self._had[word] = index in with_candidates or self._had.get(word, False)

    def _open(self, text: Any, places: list[int] | None) -> set[int]:
        """Return those of some words of a text (None: of all) that the attack may change."""
        indices_argument = {} if places is None else {"indices_to_modify": places}
        _, indices = self._attack.get_indices_to_order(text, **indices_argument)
        allowed = {int(index) for index in indices}
        for constraint in self._attack.constraints:
            if type(constraint) is MaxWordsPerturbed:
                allowed &= EnoughWordsPerturbed(constraint)._get_modifiable_indices(text)
        return allowed


def _original_index(text: Any, index: int) -> int | None:
    """Return the index in the original text of a word of a text made of it; None where it was inserted."""
    if "previous_attacked_text" not in text.attack_attrs:
        return index
    places = np.flatnonzero(text.attack_attrs["original_index_map"] == index)
    return int(places[0]) if len(places) else None


def keep_answers(attack: Attack) -> Attack:
    """Return the attack, which from now on keeps in `attack.victim_answers` what its goal function answers."""
    goal, get_results = attack.goal_function, attack.goal_function.get_results
    method = getattr(attack, "search_method", None)
    answers = VictimAnswers()

    def listened(*args: Any, **kwargs: Any) -> Any:
        results, over = get_results(*args, **kwargs)
        answers.add(results)
        return results, over

    goal.get_results = listened
    if method is not None and getattr(method, "get_goal_results", None) == get_results:
        method.get_goal_results, method.perform_search = listened, answers.ending(method.perform_search)
    attack.victim_answers = answers
    return attack


class VictimAnswers:
    """The victim's answers to the texts of one example."""

    def __init__(self) -> None:
        self._answers: dict[Any, tuple[Any, Any]] = {}
        self._end: tuple[Any, list[Any]] = None, []
        """The text with which the search ended, and the way to it."""

    def clear(self) -> None:
        """Forget everything, for the next example."""
        self._answers.clear()
        self._end = None, []

    def add(self, results: Iterable[Any]) -> None:
        """Keep the answers of the goal function. The texts are those that the victim's cache holds anyway."""
        for result in results:
            self._answers[result.attacked_text.tokenizer_input] = (result.raw_output, result.output)

    def ending(self, search: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a search that keeps the way to the text with which it ends."""

        def searched(initial: Any) -> Any:
            final_result = search(initial)
            self._end = final_result.attacked_text, _trace_path(final_result.attacked_text)
            return final_result

        return searched

    def steps(self, original: Any, final: Any, truth: Truth) -> tuple[Step, ...] | None:
        """Return the steps from the goal function's result for the original text to that for the final one.

        The first step is the original. None where they cannot be told, because the final text does not know what it was
        made of, or an answer is no probability of each label.
        """
        self.add((original, final))
        text, text_path = self._end
        text_path = text_path if text is final.attacked_text else _trace_path(final.attacked_text)
        try:
            answered = [text_input for text_input in text_path if text_input in self._answers]
            if answered[0] != original.attacked_text.tokenizer_input:
                return None
            return tuple(self._steps([text_input for text_input, _ in groupby(answered)], truth))
        except Exception:  # answers of somebody's own making: telling steps must not end their attack
            return None

    def _steps(self, way: list[Any], truth: Truth) -> Iterator[Step]:
        previous: Texts | None = None
        for text_input in way:
            texts: Texts = (text_input,) if isinstance(text_input, str) else tuple(text_input)
            raw, output = self._answers[text_input]
            score, prediction = truth.step(raw, output)
            yield Step(
                score=round(score, SCORE_DECIMALS),
                prediction=prediction,
                changes=() if previous is None else list_changes(previous, texts),
            )
            previous = texts


def _trace_path(final: Any) -> list[Any]:
    texts = [final]
    while (previous := texts[-1].attack_attrs.get("previous_attacked_text")) is not None:
        texts.append(previous)
    return [text.tokenizer_input for text in reversed(texts)]
