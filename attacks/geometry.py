"""Geometry: a word with a large gradient, replaced by the candidate that moves the sentence vector furthest.

White box. Candidates come from a masked language model and are filtered by the cosine of word vectors, or they are the
nearest words in the word vectors. On NLI the premise is left alone; on other pairs any word of either text may be
replaced.

Meng et al. (2022), sections 3.3 and 4.3 and Algorithm 1, with the cross-entropy loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rbench.attacks import AttackMethod
from rbench.schema import ResourceKind, Variant
from rbench.words.substitution.options import (
    CANDIDATE_NEEDS,
    CODE,
    PRINTED,
    RELEASED_BUDGET,
    RELEASED_SEARCH,
    RELEASED_SOURCE,
    GeometryOptions,
)

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 2


class Options(GeometryOptions):
    """What may be set. The defaults are the variant `printed`, Algorithm 1; the paper prints `max_words`."""

    VARIANTS: ClassVar[dict[str, Variant]] = {
        "printed": PRINTED,
        "released": Variant(
            source=f"{CODE}, with the candidates that its README names",
            options={**RELEASED_SOURCE, **RELEASED_BUDGET, **RELEASED_SEARCH, "keep": "positive"},
        ),
    }


class GeometryAttack(AttackMethod[Options]):
    title = "Geometry attack"
    reference = "meng2022selfsupervised"
    resources = CANDIDATE_NEEDS
    gradients = True
    serves = ("classification", "similarity")
    queries_per_word = 1.0

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the attack opens with these options."""
        return options.needed

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from rbench.recipes import geometry

        return geometry.build(victim, resources, options)
