"""Keep what the victim answered to the texts of one example, and read off it the steps of the attack.

A text of TextAttack's knows the text that it was made of. So the way from the original to the final text is there when
the search has ended, whatever the search. The answers are those that the search got: nothing is asked for the steps,
and no query is counted.

A text on the way for which the search never asked is no step. Its change belongs to the next one, as where two words
are merged by two replacements. Where a search crosses two texts, the way is that of the text that TextAttack changed,
and the words of the other come in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    heard = Heard()

    def listened(*args: Any, **kwargs: Any) -> Any:
        results, over = get(*args, **kwargs)
        heard.add(results)
        return results, over

    goal.get_results = listened
    if getattr(getattr(attack, "search_method", None), "get_goal_results", None) == get:
        attack.search_method.get_goal_results = listened
    attack.heard = heard
    return attack


class Heard:
    """The victim's answers to the texts of one example."""

    def __init__(self) -> None:
        self._answers: dict[Any, tuple[Any, Any]] = {}

    def clear(self) -> None:
        """Forget everything, for the next example."""
        self._answers.clear()

    def add(self, results: Iterable[Any]) -> None:
        """Keep the answers in some results of the goal function. The texts themselves are those in the victim's cache."""
        for result in results:
            self._answers[result.attacked_text.tokenizer_input] = (result.raw_output, result.output)

    def steps(self, original: Any, final: Any, truth: Truth) -> tuple[Step, ...] | None:
        """Return the steps from the goal function's result for the original text to that for the final one.

        The first step is the original. None where they cannot be told, because the final text does not know what it was
        made of, or an answer is no probability of each label.
        """
        self.add((original, final))
        try:
            way = list(self._way(final.attacked_text))
            if way[0] != original.attacked_text.tokenizer_input:
                return None
            return tuple(self._steps(way, truth))
        except Exception:  # texts and answers of somebody's own making: telling steps must not end their attack
            return None

    def _way(self, final: Any) -> Iterator[Any]:
        """Yield the texts from the original to the final one of which there is an answer, each another than before."""
        texts = [final]
        while (before := texts[-1].attack_attrs.get("previous_attacked_text")) is not None:
            texts.append(before)
        last = None
        for text in reversed(texts):
            given = text.tokenizer_input
            if given != last and given in self._answers:
                yield given
                last = given

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
