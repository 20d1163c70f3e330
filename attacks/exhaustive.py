"""Exhaustive: every text of a declared space, so that a text that holds is known to be robust in it.

All one-word substitutions are asked, then pairs and triples of words, the largest summed drop first, until the
prediction flips, the space is used up or the query budget is spent. Outcomes say how many texts were left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.attacks import AttackMethod
from rbench.schema import ResourceKind, Space, Strict

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 1


class Options(Strict):
    """Which space."""

    space: Space = Space()


class ExhaustiveAttack(AttackMethod[Options]):
    title = "All texts of a space"
    resources = ("word_vectors", "synonyms", "pos_tagger", "stopwords")
    queries_per_word = 10.0

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the space needs."""
        return options.space.needed

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from rbench.recipes import space

        return space.build(victim, resources, options.space, space.CompleteSearch(options.space))
