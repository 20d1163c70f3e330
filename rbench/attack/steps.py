"""Keep what the victim answered to the texts of one example, and read off it the steps of the attack.

A text of TextAttack's knows the text that it was made of. So the way from the original to the final text is there when
the search has ended, whatever the search. (A moment later it is gone: the result of an attack frees it.) The answers
are those that the search got: nothing is asked for the steps, and no query is counted.

A text on the way for which the search never asked is no step. Its change belongs to the next one, as where two words
are merged by two replacements. Where a search crosses two texts, the way is that of the text that TextAttack changed,
and the words of the other come in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from textattack import Attack

from rbench.attack.truth import Truth
from rbench.spec import Step
from rbench.system.steps import Texts, changed

DIGITS = 4
"""Decimals of a score. They are the same on every machine, but for ties; the last bits of an answer are not."""


def listen(attack: Attack) -> Attack:
    """Return the attack, which from now on keeps in `attack.heard` what its goal function answers."""
    goal, get = attack.goal_function, attack.goal_function.get_results
    method = getattr(attack, "search_method", None)
    heard = Heard()

    def listened(*args: Any, **kwargs: Any) -> Any:
        results, over = get(*args, **kwargs)
        heard.add(results)
        return results, over

    goal.get_results = listened
    if method is not None and getattr(method, "get_goal_results", None) == get:
        method.get_goal_results, method.perform_search = listened, heard.ending(method.perform_search)
    attack.heard = heard
    return attack


class Heard:
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
            found = search(initial)
            self._end = found.attacked_text, _way(found.attacked_text)
            return found

        return searched

    def steps(self, original: Any, final: Any, truth: Truth) -> tuple[Step, ...] | None:
        """Return the steps from the goal function's result for the original text to that for the final one.

        The first step is the original. None where they cannot be told, because the final text does not know what it was
        made of, or an answer is no probability of each label.
        """
        self.add((original, final))
        text, way = self._end
        way = way if text is final.attacked_text else _way(final.attacked_text)
        self.add((original, final))
        try:
            known = [given for given in way if given in self._answers]
            if known[0] != original.attacked_text.tokenizer_input:
                return None
            return tuple(self._steps([given for given, _ in groupby(known)], truth))
        except Exception:  # answers of somebody's own making: telling steps must not end their attack
            return None

    def _steps(self, way: list[Any], truth: Truth) -> Iterator[Step]:
        before: Texts | None = None
        for given in way:
            texts: Texts = (given,) if isinstance(given, str) else tuple(given)
            raw, output = self._answers[given]
            score = float(output if truth.graded else raw[truth.given])
            yield Step(
                score=round(score, DIGITS),
                prediction=None if truth.graded else int(output),
                changes=() if before is None else changed(before, texts),
            )
            before = texts


def _way(final: Any) -> list[Any]:
    """Return the texts from the first to the final one, in the victim's form."""
    texts = [final]
    while (before := texts[-1].attack_attrs.get("previous_attacked_text")) is not None:
        texts.append(before)
    return [text.tokenizer_input for text in reversed(texts)]
