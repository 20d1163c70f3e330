"""Make TextAttack's attack loop faster without changing its outcomes (status, counted queries and final text).

`Victim` caches answers over all examples, so the goal function's own cache, which is cleared after each example, is
switched off. All candidates of a step form one batch. TextAttack's PWWS makes the candidates of each word twice and
queries them word by word; here they are made once, and the victim is queried for all of them in one batch before the
search asks.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from textattack import Attack
from textattack.goal_functions import GoalFunction
from textattack.search_methods import GreedyWordSwapWIR as _GreedyWordSwapWIR

from rbench.attack.text import SplicedText

VERSION = 1

ONE_BATCH = 1 << 20


class GreedyWordSwapWIR(_GreedyWordSwapWIR):  # type: ignore[misc]
    """TextAttack's search. For weighted saliency (PWWS) it queries the victim for all candidates in one batch first.

    The search then finds the answers in the victim's cache. Queries are counted, and a query budget is spent, in
    TextAttack's order.
    """

    ask_ahead = False

    def _get_index_order(self, initial_text: Any, max_len: int = -1) -> Any:
        if self.ask_ahead and self.wir_method == "weighted-saliency":
            self._ask(initial_text)
        return super()._get_index_order(initial_text, max_len)

    def _ask(self, text: Any) -> None:
        _, indices = self.get_indices_to_order(text)
        if self.truncate_words_to is not None:
            indices = sorted(indices)[: self.truncate_words_to]
        texts = [text.replace_word_at_index(index, self.unk_token) for index in indices]
        for index in indices:
            texts += self.get_transformations(text, original_text=text, indices_to_modify=[index])
        goal = self.goal_function
        left = goal.query_budget - goal.num_queries
        texts = texts[: int(min(left, len(texts)))]
        if texts:
            goal.model([text.tokenizer_input for text in texts])


class CachedAttack(Attack):  # type: ignore[misc]
    """An attack that keeps the candidates for the original text until the example is done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._first: dict[tuple[int, tuple[int, ...]], tuple[Any, list[Any]]] = {}
        if isinstance(self.search_method, GreedyWordSwapWIR):
            # Random transformations draw from a shared generator: making candidates ahead would change their draws.
            self.search_method.ask_ahead = self.use_transformation_cache

    def attack(self, example: Any, ground_truth_output: Any) -> Any:
        """Attack one example, which is a string, columns by name, or an AttackedText."""
        spliced = SplicedText(example) if isinstance(example, str | OrderedDict) else example
        return super().attack(spliced, ground_truth_output)

    def clear_cache(self, recursive: bool = True) -> None:
        """Clear the caches of one example."""
        self._first.clear()
        super().clear_cache(recursive)

    def _get_transformations_uncached(self, current_text: Any, original_text: Any = None, **kwargs: Any) -> list[Any]:
        start = "previous_attacked_text" not in current_text.attack_attrs
        if not start or not self.use_transformation_cache or set(kwargs) != {"indices_to_modify"}:
            texts: list[Any] = super()._get_transformations_uncached(current_text, original_text, **kwargs)
            return texts
        key = (id(current_text), tuple(sorted(int(i) for i in kwargs["indices_to_modify"])))
        if key not in self._first:
            made = super()._get_transformations_uncached(current_text, original_text, **kwargs)
            self._first[key] = (current_text, made)  # keeping the text alive keeps its id unique
        return list(self._first[key][1])


def cached(attack: Attack) -> Attack:
    """Return a faster attack with the same components and outcomes.

    An instance of a subclass of `Attack` is returned as it is, because it may rely on what is changed here.
    """
    if type(attack) is not Attack:
        return attack
    goal: GoalFunction = attack.goal_function
    goal.use_cache = False
    goal.batch_size = ONE_BATCH
    constraints = [*attack.pre_transformation_constraints, *attack.constraints]
    return CachedAttack(goal, constraints, attack.transformation, attack.search_method)
