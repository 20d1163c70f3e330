"""Inside: a search of TextAttack in a declared space, where `exhaustive` says what it missed.

`deletion` is TextFooler's order of words, `pwws` that of PWWS; `greedy` takes the best substitution of all words at
each step, and `beam` keeps the best eight texts. `gradient` takes words in the order of the victim's gradients, and
`random` in a random order, with which the others are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rbench.attacks import AttackMethod
from rbench.schema import ResourceKind, Space, Strict

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 1


class Options(Strict):
    """Which space, and which search."""

    space: Space = Space()
    search: Literal["deletion", "pwws", "greedy", "beam", "gradient", "random"] = "deletion"


class SpaceAttack(AttackMethod[Options]):
    title = "A search in a space"
    reference = ("jin2020bert", "ren2019generating")
    resources = ("word_vectors", "synonyms", "pos_tagger", "stopwords")
    queries_per_word = 5.0

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the space needs."""
        return options.space.needed

    def uses_gradients(self, options: Options) -> bool:
        """Return whether the search follows gradients."""
        return options.search == "gradient"

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from rbench.recipes import space

        return space.build(victim, resources, options.space, space.searched(options.search))
