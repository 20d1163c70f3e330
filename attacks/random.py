"""Random: the candidates of the Geometry attack, taken at random. A control: an attack worth its name beats it.

Words in random order, for each a random candidate that is kept whatever the victim says, until the prediction flips.
On NLI the premise is left alone; on other pairs any word of either text may be replaced. With the variant and the
options of a Geometry attack it has the same candidates and the same budget.
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
    RELEASED_SOURCE,
    AttackOptions,
)

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.schema import TaskSpec

VERSION = 2


class Options(AttackOptions):
    """The candidates and the budget of the Geometry attack's variant."""

    VARIANTS: ClassVar[dict[str, Variant]] = {
        "printed": PRINTED,
        "released": Variant(
            source=f"{CODE}, with the candidates that its README names", options={**RELEASED_SOURCE, **RELEASED_BUDGET}
        ),
    }


class RandomAttack(AttackMethod[Options]):
    title = "Random substitutions"
    resources = CANDIDATE_NEEDS
    serves = ("classification", "similarity")
    queries_per_word = 0.2
    control = True

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the attack opens with these options."""
        return options.needed

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from rbench.recipes import substitutes

        return substitutes.build_random(victim, resources, options)
