"""Geometry: a word with a large gradient, replaced by the candidate that moves the sentence vector furthest.

White box. Candidates come from a masked language model and are filtered by the cosine of word vectors, or they are the
nearest words in the word vectors. On NLI the premise is left alone; on other pairs any word of either text may be
replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rbench.spec import ResourceKind, Variant
from rbench.substitution.options import CANDIDATE_NEEDS, RELEASED_BUDGET, RELEASED_SOURCE, AttackOptions

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.spec import TaskSpec

VERSION = 2

TITLE = "Geometry attack"
REFERENCE = (
    "Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models, "
    "sections 3.3 and 4.3, Algorithm 1 with the cross-entropy loss"
)
NEEDS = CANDIDATE_NEEDS
SERVES = ("classification", "similarity")
QUERIES_PER_WORD = 1.0


class Options(AttackOptions):
    """What may be set. The defaults are the variant `printed`, Algorithm 1; the paper prints `max_words`."""

    VARIANTS: ClassVar[dict[str, Variant]] = {
        "printed": Variant(source="Algorithm 1, sections 3.3 and 4.3, appendix F"),
        "released": Variant(
            source="the authors' public code, LotusDYH/ssl_robust, with the candidates that its README names",
            options={
                **RELEASED_SOURCE,
                **RELEASED_BUDGET,
                "order": "once",
                "word_norm": "l1",
                "direction": "deepfool",
                "keep": "positive",
                "accept_flip": False,
            },
        ),
    }

    order: Literal["each_round", "once"] = "each_round"
    """`each_round`: the gradients of the text as it is order its words anew after each replacement. `once`: those of
    the original text order them for good."""
    word_norm: Literal["l2", "l1"] = "l2"
    """A word's gradient as a number. `l2`: the L2 norm of the mean over its pieces. `l1`: the sum of absolute values
    over its pieces."""
    direction: Literal["gradient", "deepfool"] = "gradient"
    """Where candidates are to move the sentence vector. `gradient`: along the gradient of the cross-entropy.
    `deepfool`: along the normal of the classifier's nearest boundary. With two classes both are the same."""
    projection: Literal["signed", "absolute"] = "signed"
    """`absolute` is the argmax as printed, which also admits the most negative projection."""
    keep: Literal["always", "positive"] = "always"
    """`always`: the best candidate replaces the word. `positive`: only if its projection is above zero or the
    prediction flips; otherwise the word stays and the next one is tried."""
    accept_flip: bool = True
    """A candidate that flips the prediction goes before one with a larger projection that does not. False: only the
    candidate with the largest projection can end the search."""


def needs(options: Options) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the attack opens with these options."""
    return options.needed


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.attack import geometry

    return geometry.build(victim, resources, **options.model_dump(exclude={"variant"}))
