"""Random: the candidates of the Geometry attack, taken at random. A control: an attack worth its name beats it.

Words in random order, for each a random candidate that is kept whatever the victim says, until the prediction flips.
On NLI the premise is left alone; on other pairs any word of either text may be replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.spec import Positive, ResourceKind
from rbench.substitution.options import CANDIDATE_NEEDS, CandidateOptions

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.spec import TaskSpec

VERSION = 1

TITLE = "Random substitutions"
REFERENCE = "A control of rbench's own, with the candidates of the Geometry attack"
NEEDS = CANDIDATE_NEEDS
QUERIES_PER_WORD = 0.2
CONTROL = True


class Options(CandidateOptions):
    """The same candidates as the Geometry attack's, and as many words."""

    max_words: Positive = 20
    """At most so many words replaced in one text."""


def needs(options: Options) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the attack opens with these options."""
    return options.needed


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.attack import substitutes

    return substitutes.build_random(victim, resources, **options.model_dump())
