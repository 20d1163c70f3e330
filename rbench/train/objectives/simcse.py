"""Unsupervised SimCSE (Gao et al. 2021, sections 3 and 6.3): a sentence encoded twice with dropout is a positive pair.

The loss follows V-advCSE (Ko 2024, equation 7), which restates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import Contrastive

if TYPE_CHECKING:
    from rbench.train.contrastive import Batch, Losses, SentenceModel

VERSION = 1


class Options(Contrastive):
    """Temperature 0.05, CLS and an MLP head in training only are in the training command of the authors' released code.

    Dropout is the base's own, 0.1 for BERT.
    """


class SimcseTraining(ContrastiveTraining[Options]):
    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return equation 4. Cost: 2 forward and 2 backward passes."""
        from rbench.train.contrastive_losses import info_nce

        _, z, z_plus = model.twice(model.embed(batch), batch.mask)
        return {"loss": info_nce(z, [z_plus], z_plus, options.temperature)}
