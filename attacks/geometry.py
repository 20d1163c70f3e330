"""Geometry: the word with the largest gradient, replaced by the candidate that moves the sentence vector furthest.

White box. Candidates come from a masked language model and are filtered by the cosine of word vectors. On NLI the
premise is left alone; on other pairs any word of either text may be replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rbench.spec import Positive, ResourceKind
from rbench.substitution.options import CANDIDATE_NEEDS, CandidateOptions

if TYPE_CHECKING:
    from textattack import Attack

    from rbench.spec import TaskSpec

VERSION = 1

TITLE = "Geometry attack"
REFERENCE = (
    "Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models, "
    "sections 3.3 and 4.3, Algorithm 1 with the cross-entropy loss"
)
NEEDS = CANDIDATE_NEEDS
QUERIES_PER_WORD = 1.0


class Options(CandidateOptions):
    """What may be set. The paper prints `max_words`; the other defaults are ours."""

    max_words: Positive = 20
    """At most so many words replaced in one text (section 4.3)."""
    projection: Literal["signed", "absolute"] = "signed"
    """`absolute` is the argmax as printed, which also admits the most negative projection."""
    accept_flip: bool = True
    """A candidate that flips the prediction goes before one with a larger projection that does not. False: only the
    candidate with the largest projection can end the search."""


def needs(options: Options) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the attack opens with these options."""
    return options.needed


def build(victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
    """The attack on a victim of `rbench.attack`; it is the same for every task."""
    from rbench.attack import geometry

    return geometry.build(victim, resources, **options.model_dump())
