"""Geometry: the word with the largest gradient, replaced by the candidate that moves the sentence vector furthest.

White box. Candidates come from a masked language model and are filtered by the cosine of word vectors. On NLI the
premise is left alone; on other pairs any word of either text may be replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rbench.spec import Positive, Strict

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.spec import TaskSpec

VERSION = 1

TITLE = "Geometry attack"
REFERENCE = (
    "Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models, "
    "sections 3.3 and 4.3, Algorithm 1 with the cross-entropy loss"
)
NEEDS = ("masked_lm", "word_vectors", "stopwords")
QUERIES_PER_WORD = 1.0


class Options(Strict):
    """What may be set. The paper prints `max_words`; the other defaults are ours."""

    max_words: Positive = 20
    """At most so many words replaced in one text (section 4.3)."""
    candidates: Positive = 50
    """Predictions of the masked language model looked at for a word. Not printed for evaluation; 50 is what the paper
    uses in adversarial training, 25 in contrastive learning (appendix F)."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Least cosine of a replacement's word vector with the word's own. Not printed; 0.5 is that of TextAttack's
    TextFooler, whose filter the paper says it follows."""
    unknown: Literal["discard", "keep"] = "discard"
    """What becomes of a replacement where it or the word has no vector: no filter can vouch for it."""
    projection: Literal["signed", "absolute"] = "signed"
    """`absolute` is the argmax as printed, which also admits the most negative projection."""
    accept_flip: bool = True
    """A candidate that flips the prediction goes before one with a larger projection that does not. False: only the
    candidate with the largest projection can end the search."""


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.attack import geometry

    return geometry.build(victim, resources, **options.model_dump())
