"""ADCL ("Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models").

It is momentum contrast (section 3.2, equation 1: `rbench.train.moco`). The positive of a sentence X is X', which the
Geometry attack on the contrastive loss finds (section 3.3, Algorithm 1: `rbench.substitution.batched`). The attack runs
at each step, for the whole batch at once.

The attack increases equation 1 of z = g_q(f_q(X^t)), where X^t is X with the words replaced so far. The positive in
that equation is the key of X itself. The negatives are the queue as it would be after the keys of the batch's sentences
are enqueued. The keys are fixed during the attack and computed without dropout.

In some sentences no word can be replaced: they are too short, have only stop words, or have no word with a candidate.
Such a sentence is its own positive, under another dropout mask. These are counted (`positives_unchanged`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rbench.spec import EncoderSpec, ResourceChoice, ResourceKind
from rbench.spec.common import Positive, Share
from rbench.train.options import MOMENTUM_COUNTED, Momentum

if TYPE_CHECKING:
    from rbench.resources import Resources
    from rbench.train.moco import MoCoObjective

VERSION = 1

NEEDS: tuple[ResourceKind, ...] = ("masked_lm", "word_vectors", "stopwords")
COUNTED = {**MOMENTUM_COUNTED, **dict.fromkeys(("loss_raised", "words_replaced"), "positives")}


class Options(Momentum):
    """The paper prints max_words, share and candidates (appendix F). It does not print min_cosine, unknown, ranked_by.

    Two further choices are ours: stop words are not replaced, and a replacement is a single entry of the masked LM's
    vocabulary.
    """

    resources: ResourceChoice = ResourceChoice(profile="standard")
    """The resource profile of the masked LM, the word vectors and the stop words."""
    max_words: Positive = 10
    """K: at most min(K, share * L) words are replaced in a sentence of L words. The paper takes 15 for IMDB."""
    share: Share = 0.2
    """Largest share of a sentence's words to replace; see `max_words`."""
    candidates: Positive = 25
    """T: the number of the masked LM's predictions that are filtered."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Least cosine of the word vectors of a word and its candidate (ours)."""
    unknown: Literal["discard", "keep"] = "discard"
    """Whether to keep a candidate if it or the word has no vector (ours)."""
    projection: Literal["signed", "absolute"] = "signed"
    """Step 4 takes the candidate with the largest projection, as the text says (`signed`), or with the largest absolute
    projection, as printed (`absolute`). The latter may decrease the loss."""
    ranked_by: Literal["query", "key"] = "query"
    """The encoder that the attack moves z of: g_q(f_q(.)) or g_k(f_k(.)). Algorithm 1 says only f and g (ours)."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None, *, resources: Resources) -> MoCoObjective:
    """Build ADCL on `base` (a folder or hub id), or on `spec.architecture` if `base` is None.

    ResourceError if the masked LM, the word vectors or the stop words are missing or damaged.
    """
    from rbench.substitution.batched import Geometry
    from rbench.train.hard_positives import HardPositives
    from rbench.train.moco import MoCoObjective

    geometry = Geometry.of(
        resources,
        candidates=options.candidates,
        min_cosine=options.min_cosine,
        unknown=options.unknown,
        projection=options.projection,
    )
    positives = HardPositives(geometry, max_words=options.max_words, share=options.share, ranked_by=options.ranked_by)
    return MoCoObjective(spec, base, options, positives)
