"""USCAL (Miao et al. 2021): contrastive learning regularised by an adversarial contrastive term, without labels.

This follows the description in RobustSentEmbed (Asl et al. 2024, section 2), which combines benign with adversarial
contrastive learning, the latter as a regulariser. By the abstract of USCAL, its contrastive loss makes the adversarial
examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import AdversarialTermOptions

if TYPE_CHECKING:
    from rbench.train.contrastive import Batch, Losses, SentenceModel

VERSION = 1


class Options(AdversarialTermOptions):
    """tau is SimCSE's. All other values are ours."""


class UscalTraining(ContrastiveTraining[Options]):
    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return L_con(z, z+) + weight * L_con(z_adv, z+). The cost is that of `with_adversarial_term`."""
        from rbench.train.contrastive import with_adversarial_term
        from rbench.train.contrastive_losses import info_nce

        return with_adversarial_term(
            options, model, batch, lambda z, z_plus, z_adv: info_nce(z_adv, [z_plus], z_plus, options.temperature)
        )
