"""USCAL (Miao et al. 2021): contrastive learning regularised by an adversarial contrastive term, without labels.

The paper is not at hand; this is how RobustSentEmbed (Asl et al. 2024, section 2) describes it: benign and adversarial
contrastive learning together, the second as a regulariser, adversarial examples made with the contrastive loss itself.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.spec import EncoderSpec
from rbench.spec.words import Rate
from rbench.train.options import Contrastive, Norm, Size

if TYPE_CHECKING:
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel


class Options(Contrastive):
    """All values are ours, tau excepted, which is SimCSE's."""

    epsilon: Rate = 1.0
    """Length of the perturbation, one step along the gradient, over a sentence's numbers (ours)."""
    norm: Norm = "l2"
    """Norm in which the step has that length (ours)."""
    weight: Size = 1.0
    """Weight of the adversarial term (ours)."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """USCAL on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options))


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """L_con(z, z+) + weight L_con(z_adv, z+), z_adv at X + epsilon g / |g|, g the gradient of the first term at X.

    Forward 3, backward 3 and one through the network of one view without the weights: the clean view serves the loss
    and the perturbation.
    """
    from rbench.train.contrast import info_nce

    tau = options.temperature
    z, z_plus, X_adv = model.attacked(
        batch, lambda z, z_plus: info_nce(z, [z_plus], z_plus, tau), options.epsilon, options.norm
    )
    z_adv = model.z(X_adv, batch.mask)
    contrastive = info_nce(z, [z_plus], z_plus, tau)
    adversarial = options.weight * info_nce(z_adv, [z_plus], z_plus, tau)
    return {"loss": contrastive + adversarial, "contrastive": contrastive, "adversarial": adversarial}
