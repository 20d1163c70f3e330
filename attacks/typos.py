"""Typos: the worst few typing errors, each the single edit that harms the victim most.

An edit replaces a letter by the key beside it, inserts such a key, leaves a letter out, doubles it, or exchanges it
with the next one. At each step all edits of all words are asked and the worst is kept, so one edit is exact: if any
edit flips the prediction, the attack finds one. Several are greedy.

Charmer (Abad Rocamora et al. 2024) takes the worst edit of one character at a time, too. Its edits are of any
character, at the places that matter most; here all places are asked, for typing errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rbench.attacks import AttackMethod
from rbench.noise.typos import BESIDE
from rbench.schema import Strict
from rbench.schema.common import Positive

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 2


class Options(Strict):
    """How many edits."""

    k: Positive = 1
    """At most so many edits of a text."""


def edits(word: str) -> Iterator[str]:
    """Yield each word that one typing error makes of a word, once. A word of one letter is not left out."""
    made = {word: None}
    for i, letter in enumerate(word):
        if not letter.isalpha():
            continue
        before, after = word[:i], word[i + 1 :]
        for key in BESIDE.get(letter.lower(), ""):
            own = key.upper() if letter.isupper() else key
            made |= dict.fromkeys((f"{before}{own}{after}", f"{before}{letter}{own}{after}"))
        made[f"{before}{letter}{letter}{after}"] = None
        if len(word) > 1:
            made[f"{before}{after}"] = None
        if after[:1].isalpha():
            made[f"{before}{after[0]}{letter}{after[1:]}"] = None
    yield from (one for one in made if one != word)


class TypoAttack(AttackMethod[Options]):
    title = "Typing errors, the worst few"
    reference = "abadrocamora2024revisiting"
    queries_per_word = 60.0

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from textattack import Attack
        from textattack.goal_functions import UntargetedClassification
        from textattack.search_methods import SearchMethod
        from textattack.transformations import WordSwap

        from rbench.recipes.space import damage_of, is_flipped

        class WorstEdit(SearchMethod):  # type: ignore[misc]
            """Keeps the worst edit at each step. One that flips the prediction counts as worse than any that does not:
            among three classes TextAttack's own search may keep the other, whose score is higher."""

            is_black_box = True

            def perform_search(self, initial_result: Any) -> Any:
                best, over = initial_result, False
                while not over and not is_flipped(best):
                    texts = self.get_transformations(best.attacked_text, original_text=initial_result.attacked_text)
                    results, over = self.get_goal_results(texts) if texts else ([], True)
                    best = max(results, key=damage_of, default=best)
                return best

        class Edits(WordSwap):  # type: ignore[misc]
            """All texts that are one edit away, as long as edits are left."""

            def _get_replacement_words(self, word: str) -> list[str]:
                return list(edits(word))

            def _get_transformations(self, current_text: Any, indices_to_modify: Any) -> list[Any]:
                steps, text = 0, current_text
                while (text := text.attack_attrs.get("previous_attacked_text")) is not None:
                    steps += 1
                return (
                    super()._get_transformations(current_text, sorted(indices_to_modify)) if steps < options.k else []
                )

        return Attack(UntargetedClassification(victim), [], Edits(), WorstEdit())
