"""Contrastive Tension (Carlsson et al. 2021, "Semantic re-tuning with contrastive tension", ICLR): CT-BERT.

Two encoders f1 and f2 begin with the same weights, and both are trained. The dot product of their vectors is to be
large for one sentence and small for two. With the logistic function sigma, a pair (s, s') of the first sentence's
vector by f1 and the second's by f2 has the loss

    -log sigma(f1(s) . f2(s'))          if s and s' are the same sentence,
    -log (1 - sigma(f1(s) . f2(s')))    otherwise,

which is the binary cross-entropy. Each sentence stands in one pair with itself and in K pairs with others (K = 7). The
encoder that is kept is f2, as in the authors' code. Vectors are neither normalised nor passed through a head.

Ours: the K others are those that follow in the batch, whose order is random, so that each sentence is encoded once by
each network; the authors draw others for each pair, and encode them anew. The optimiser is rbench's AdamW in place of
their RMSProp.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rbench.schema import EncoderSpec, TrainSpec
from rbench.schema.common import Positive
from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import Contrastive

if TYPE_CHECKING:
    from torch import nn

    from rbench.encoders.sentence import SentenceEncoder
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel
    from rbench.words.resources import Resources

VERSION = 1


class Options(Contrastive):
    """There is no temperature in this loss: that of health's contrastive probe is meant."""

    negatives: Positive = 7
    """K: the pairs of different sentences for each pair of one sentence."""

    def problem(self, train: TrainSpec) -> str | None:
        """Say why `train` does not fit these options; None if it fits."""
        if self.negatives < train.batch_size:
            return super().problem(train)
        return (
            f"a batch of {train.batch_size} has no {self.negatives} other sentences for each of its own; take a larger "
            "train.batch_size or fewer train.options.negatives."
        )


class CtTraining(ContrastiveTraining[Options]):
    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ContrastiveObjective:
        """Build CT on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.contrastive import ContrastiveObjective

        bound = partial(self.losses, options)
        return ContrastiveObjective(spec, base, options, bound, head="none", parts=_build_parts, needs_dropout=False)

    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return the sum over the 1 + K pairs of a sentence, in the mean over the sentences of the batch.

        Cost: one forward and one backward pass of each of the two encoders.
        """
        import torch
        from torch.nn.functional import softplus

        first = cast("SentenceEncoder", model.parts["first"])
        words: Any = first.model.get_input_embeddings()
        first_vectors = first(inputs_embeds=words(batch.ids), attention_mask=batch.mask)
        kept_vectors = model.f(model.embed(batch), batch.mask)
        model.show_views(first_vectors, kept_vectors)
        positive_loss = softplus(
            -(first_vectors * kept_vectors).sum(-1)
        ).mean()  # -log sigma(z) = softplus(-z), and -log(1 - sigma(z)) = softplus(z)
        shifts = range(1, min(options.negatives, len(kept_vectors) - 1) + 1)
        negative_losses = [
            softplus((first_vectors * torch.roll(kept_vectors, -k, dims=0)).sum(-1)).mean() for k in shifts
        ]
        negative_loss = torch.stack(negative_losses).sum() if negative_losses else positive_loss.new_zeros(())
        return {"loss": positive_loss + negative_loss, "same": positive_loss, "different": negative_loss}


def _build_parts(encoder: SentenceEncoder) -> dict[str, nn.Module]:
    """Return f1, which begins as f2 does."""
    return {"first": copy.deepcopy(encoder)}
