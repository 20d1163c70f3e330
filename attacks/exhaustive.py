"""Exhaustive: every text of a declared space, so that a text that holds is known to be robust in it.

All one-word substitutions are asked, then pairs and triples of words, the largest summed drop first, until the
prediction flips, the space is used up or the query budget is spent. Outcomes say how many texts were left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.schema import ResourceKind, Space, Strict

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 1
TITLE = "All texts of a space"
REFERENCE = ""
NEEDS = ("word_vectors", "synonyms", "pos_tagger", "stopwords")
QUERIES_PER_WORD = 10.0


class Options(Strict):
    """Which space."""

    space: Space = Space()


def needs(options: Options) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the space needs."""
    return options.space.needed


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.recipes import space

    return space.build(victim, resources, options.space, space.CompleteSearch(options.space))
