"""ADCL ("Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models").

It is momentum contrast (section 3.2, equation 1: `rbench.train.moco`). The positive of a sentence X is X', which the
Geometry attack on the contrastive loss finds (section 3.3, Algorithm 1: `rbench.words.substitution.batched`). The
attack runs at each step, for the whole batch at once.

The attack increases equation 1 of z = g_q(f_q(X^t)), where X^t is X with the words replaced so far. The positive in
that equation is the key of X itself. The negatives are the queue as it would be after the keys of the batch's sentences
are enqueued. The keys are fixed during the attack and computed without dropout.

In some sentences no word can be replaced: they are too short, have only stop words, or have no word with a candidate.
Such a sentence is its own positive, under another dropout mask. These are counted (`positives_unchanged`).

`positives` has two controls that do not attack: random substitutions, and no substitution at all.

The variant `released` follows the authors' public code: the masked LM alone proposes words, X' is the query and X the
key, the heads are one linear layer with tanh on BERT's pooler, the queue starts random, and the heads have the
encoder's learning rate. Its learning rate of 2e-5 and its 15 epochs stand in the files of full-size encoders, for both
variants, because the paper prints neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from rbench.schema import EncoderSpec, ResourceChoice, ResourceKind, Variant, Variants
from rbench.schema.common import Positive, Share
from rbench.train.objectives import TrainingObjective
from rbench.train.options import MOMENTUM_SAMPLES, MomentumOptions
from rbench.words.substitution.options import CANDIDATE_NEEDS, CODE, CandidateOptions

if TYPE_CHECKING:
    from rbench.train.moco import MoCoObjective
    from rbench.words.resources import Resources

VERSION = 2


class Options(CandidateOptions, MomentumOptions, Variants):
    """The paper prints max_words, share and candidates (appendix F). It does not print min_cosine, unknown, ranked_by.

    Two further choices are ours: stop words are not replaced, and a replacement by the masked LM is a single entry of
    its vocabulary.
    """

    VARIANTS: ClassVar[Mapping[str, Variant]] = {
        "printed": Variant(source="the ADCL paper, sections 3.2 and 3.3, Algorithm 1, appendix F"),
        "released": Variant(
            source=f"{CODE}, contrastive training",
            options={
                "source": "masked_lm",
                "min_cosine": None,
                "query": "positive",
                "head": "linear",
                "pooler": True,
                "queue_start": "random",
                "temperature": 0.07,
                "momentum": 0.999,
                "head_learning_rate": None,
            },
        ),
    }

    positives: Literal["hard", "random", "same"] = "hard"
    """What X' is. `hard`: what the attack finds. Two controls of ours: `random` replaces random words by random
    candidates, within the same budget; `same` is X itself, under another dropout mask."""
    resources: ResourceChoice = ResourceChoice(set="standard")
    """The resource set of the masked LM, the word vectors and the stop words."""
    max_words: Positive = 10
    """K: at most min(K, share * L) words are replaced in a sentence of L words. The paper takes 15 for IMDB."""
    share: Share = 0.2
    """Largest share of a sentence's words to replace; see `max_words`."""
    candidates: Positive = 25
    """T: the size of the set of candidates of a word, after the filter."""
    projection: Literal["signed", "absolute"] = "signed"
    """Step 4 takes the candidate with the largest projection, as the text says (`signed`), or with the largest absolute
    projection, as printed (`absolute`). The latter may decrease the loss."""
    ranked_by: Literal["query", "key"] = "query"
    """The encoder that the attack moves z of: g_q(f_q(.)) or g_k(f_k(.)). Algorithm 1 says only f and g (ours)."""


class AdclTraining(TrainingObjective[Options]):
    full_batches = True
    resources = CANDIDATE_NEEDS
    counted: Mapping[str, str] = {**MOMENTUM_SAMPLES, **dict.fromkeys(("loss_raised", "words_replaced"), "positives")}

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the search opens with these options."""
        return options.needed

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> MoCoObjective:
        """Build ADCL on `base` (a folder or hub id), or on `spec.architecture` if `base` is None.

        ResourceError if a resource that its options need is missing or damaged.
        """
        from rbench.train.moco import MoCoObjective
        from rbench.train.substituted import HardPositives
        from rbench.words.substitution.batched import BatchedGeometry

        assert resources is not None  # it states `resources`
        geometry = BatchedGeometry.of(resources, **options.of_source, projection=options.projection)
        return MoCoObjective(spec, base, options, HardPositives(geometry, options))
