"""Inside: a search of TextAttack in a declared space, where `exhaustive` says what it missed.

`deletion` is TextFooler's order of words, `pwws` that of PWWS; `greedy` takes the best substitution of all words at
each step, and `beam` keeps the best eight texts. `gradient` takes words in the order of the victim's gradients, and
`random` in a random order, with which the others are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from rbench.schema import ResourceKind, Space, Strict

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 1
TITLE = "A search in a space"
REFERENCE = ("jin2020bert", "ren2019generating")
NEEDS = ("word_vectors", "synonyms", "pos_tagger", "stopwords")
QUERIES_PER_WORD = 5.0


class Options(Strict):
    """Which space, and which search."""

    space: Space = Space()
    search: Literal["deletion", "pwws", "greedy", "beam", "gradient", "random"] = "deletion"


def needs(options: Options) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the space needs."""
    return options.space.needed


def gradients(parameters: Mapping[str, Any]) -> bool:
    """Whether the attack with these options asks the victim for gradients."""
    return bool(parameters["search"] == "gradient")


GRADIENTS = gradients


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.recipes import space

    return space.build(victim, resources, options.space, space.searched(options.search))
