"""ADCL ("Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models").

Momentum contrast (section 3.2, equation 1: `rbench.train.moco`) in which the positive of a sentence X is X', found by
the Geometry attack on the contrastive loss (section 3.3, Algorithm 1: `rbench.substitution.batched`), made on the fly
for the whole batch.

What the attack raises is equation 1 of z = g_q(f_q(X^t)), X^t being X with the words replaced so far, against the key
of X itself, which is X' before anything is replaced, and the queue as it would be with the keys of the batch's own
sentences in it. That key is fixed and made without dropout. A sentence in which nothing can be replaced, because it is
too short for one word, has stop words only, or no word with a candidate, is its own positive, under another dropout;
such sentences are counted (`positives_unchanged`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rbench.spec import EncoderSpec, ResourceChoice, ResourceKind
from rbench.spec.words import Positive, Share
from rbench.train.options import MOMENTUM_COUNTED, Momentum

if TYPE_CHECKING:
    from rbench.resources import Resources
    from rbench.train.moco import MoCoObjective

VERSION = 1

NEEDS: tuple[ResourceKind, ...] = ("masked_lm", "word_vectors", "stopwords")
COUNTED = {**MOMENTUM_COUNTED, **dict.fromkeys(("loss_raised", "words_replaced"), "positives")}


class Options(Momentum):
    """Printed (appendix F): max_words, share, candidates. Not printed, so ours: min_cosine, unknown, ranked_by,
    and that neither stop words are replaced nor words put in that are not one entry of the masked LM's vocabulary."""

    resources: ResourceChoice = ResourceChoice(profile="standard")
    """Where the masked LM, the word vectors and the stop words come from: a resource profile."""
    max_words: Positive = 10
    """K: at most min(K, share * L) words are replaced in a sentence of L words. 15 for IMDB."""
    share: Share = 0.2
    candidates: Positive = 25
    """T: so many of the masked LM's predictions go into the filter."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Least cosine of the vectors of a word and its candidate (ours)."""
    unknown: Literal["discard", "keep"] = "discard"
    """What becomes of candidates where one of the two words has no vector (ours)."""
    projection: Literal["signed", "absolute"] = "signed"
    """Step 4: the candidate with the largest projection, as the text has it, or with the largest absolute one, as
    printed, which also takes one that lowers the loss."""
    ranked_by: Literal["query", "key"] = "query"
    """Whose z the attack moves: g_q(f_q(.)) or g_k(f_k(.)). Algorithm 1 says f and g (ours)."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None, *, resources: Resources) -> MoCoObjective:
    """ADCL on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`.

    ResourceError where masked LM, word vectors or stop words are missing or damaged.
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
