"""RobustEmbed (Asl et al. 2023), as RobustSentEmbed (Asl et al. 2024, sections 3.1 and 3.2) restates it.

It has the sentence-level perturbation only, T-step FGSM mixed with K-step PGD (equations 5 to 7), and the two
contrastive terms of equation 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import SentenceLevelOptions

if TYPE_CHECKING:
    from rbench.train.contrastive import Batch, Losses, SentenceModel

VERSION = 1


class Options(SentenceLevelOptions):
    """`SentenceLevelOptions` says which values are printed. They come from RobustSentEmbed; RobustEmbed was not
    consulted."""


class RobustEmbedTraining(ContrastiveTraining[Options]):
    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return the first two terms of equation 10.

        Cost: 3 + max(K, T) forward passes and as many backward passes. The max(K, T) passes of the ascent compute no
        gradients of weights; with separate tracks there are twice as many of them. z+ is encoded once and is the
        constant target of the ascent.
        """
        from rbench.train.contrastive_losses import info_nce

        tau = options.temperature
        X = model.embed(batch)
        _, z, z_plus = model.twice(X, batch.mask)
        z_adv = model.z(model.add_ascent(options, X, z_plus, batch), batch.mask)
        robust = info_nce(z, [z_plus, z_adv], z_plus, tau)
        regular = options.lambda1 * info_nce(z_adv, [z_plus], z_plus, tau)
        return {"loss": robust + regular, "robust": robust, "adversarial": regular}
