"""Strongest: an ensemble in a declared space, as AutoAttack is one for images. It has no options that tune it.

TextFooler's order of words, PWWS's order, a beam of 8, a local search, and the complete search, each on the texts that
those before it left. `query_budget` is that of a text, for all of them (5,000 where it is not set).
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


class StrongestAttack(AttackMethod[Options]):
    title = "The strongest attack in a space"
    reference = "croce2020reliable"
    resources = ("word_vectors", "synonyms", "pos_tagger", "stopwords")
    queries_per_word = 20.0

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the space needs."""
        return options.space.needed

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from rbench.recipes import ensemble, space

        return space.build(victim, resources, options.space, ensemble.Strongest(options.space))
