"""Strongest: an ensemble in a declared space, as AutoAttack is one for images. It has no options that tune it.

TextFooler's order of words, PWWS's order, a beam of 8, a local search, and the complete search, each on the texts that
those before it left. `query_budget` is that of a text, for all of them (5,000 where it is not set).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.schema import ResourceKind, Space, Strict

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 1
TITLE = "The strongest attack in a space"
REFERENCE = "croce2020reliable"
NEEDS = ("word_vectors", "synonyms", "pos_tagger", "stopwords")
QUERIES_PER_WORD = 20.0


class Options(Strict):
    """Which space."""

    space: Space = Space()


def needs(options: Options) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the space needs."""
    return options.space.needed


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.recipes import ensemble, space

    return space.build(victim, resources, options.space, ensemble.Strongest(options.space))
