"""Append: a few harmless words before or behind a text, chosen so that the prediction flips.

At each step each word of a list is tried at each allowed end, and the worst for the victim is kept. Guard classifiers
and routers are the case in point: words that change nothing of what a text asks for should not change their answer.
A report tells of 39 of 39 detected prompts that passed a jailbreak detector with 2.6 harmless words in the mean behind
them, by greedy search over a list of 35 (vllm-project/semantic-router, issue 3174). Wallace et al. (2019) search by
gradients for one sequence for all texts; here it is chosen for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rbench.attacks import AttackMethod
from rbench.schema import Strict
from rbench.schema.common import Positive

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 1
WORDS = (
    *(
        "afternoon",
        "also",
        "apple",
        "blue",
        "bread",
        "bus",
        "chair",
        "clock",
        "cloud",
        "coffee",
        "corner",
        "door",
        "garden",
    ),
    *(
        "green",
        "hello",
        "house",
        "indeed",
        "lake",
        "lamp",
        "letter",
        "Monday",
        "morning",
        "mountain",
        "music",
        "number",
    ),
    *("paper", "pencil", "perhaps", "please", "river", "road", "shoe", "station", "street", "sugar", "summer", "table"),
    *(
        "tea",
        "thanks",
        "today",
        "tomorrow",
        "train",
        "tree",
        "umbrella",
        "water",
        "weather",
        "window",
        "winter",
        "yellow",
    ),
)
"""Words of everyday things, without an opinion."""


class Options(Strict):
    """How many words, which, and where."""

    m: Positive = 3
    """At most so many words."""
    words: Annotated[tuple[str, ...], Field(min_length=1)] = WORDS
    where: Literal["before", "behind", "both"] = "both"


class AppendAttack(AttackMethod[Options]):
    title = "Harmless words before or behind"
    reference = "wallace2019universal"
    queries_per_word = 6.0

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`. Of several columns, words go to those that are not
        protected."""
        from textattack import Attack
        from textattack.goal_functions import UntargetedClassification
        from textattack.search_methods import GreedySearch
        from textattack.transformations import Transformation

        class Ends(Transformation):  # type: ignore[misc]
            """All texts with one word more at an end, as long as words are left."""

            def _get_transformations(self, current_text: Any, indices_to_modify: Any) -> list[Any]:
                steps, text = 0, current_text
                while (text := text.attack_attrs.get("previous_attacked_text")) is not None:
                    steps += 1
                if steps >= options.m or not indices_to_modify:
                    return []
                made = []
                if options.where != "behind":
                    first = min(indices_to_modify)
                    made += [current_text.insert_text_before_word_index(first, word) for word in options.words]
                if options.where != "before":
                    last = max(indices_to_modify)
                    made += [current_text.insert_text_after_word_index(last, word) for word in options.words]
                return made

        return Attack(UntargetedClassification(victim), [], Ends(), GreedySearch())
