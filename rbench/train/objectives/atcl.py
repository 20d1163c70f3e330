"""ATCL (Rim et al. 2021, arXiv 2109.09075): contrast a sentence with its linear perturbation.

By its abstract, the paper perturbs input embeddings by the fast gradient method and keeps original and perturbed
representations close by contrastive learning. Its tasks are language modelling and translation. The RobustSentEmbed
tables list ATCL as a sentence encoder, without saying how it was trained. Here the task is SimCSE's loss (ours).
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


class AtclTraining(ContrastiveTraining[Options]):
    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return L_con(z, z+) + weight * L_con(z, z_adv). In the second term the negatives are the other sentences'
        z_adv.

        The cost is that of `with_adversarial_term`.
        """
        from rbench.train.contrastive import with_adversarial_term
        from rbench.train.contrastive_losses import info_nce

        return with_adversarial_term(
            options, model, batch, lambda z, z_plus, z_adv: info_nce(z, [z_adv], z_adv, options.temperature)
        )
