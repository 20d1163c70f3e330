"""ATCL (Rim et al. 2021, arXiv 2109.09075): a linear perturbation, and contrast between the original and the perturbed.

The paper perturbs input embeddings by the fast gradient method with the loss of its task (language modelling or
translation) and adds a contrastive term that keeps original and perturbed representations close. The RobustSentEmbed
tables have it as a sentence encoder without saying how; here the task is SimCSE's loss.
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
    """Length of the perturbation, L2 over a sentence's numbers (ours)."""
    norm: Norm = "l2"
    """Norm in which the step has that length (ours)."""
    weight: Size = 1.0
    """Weight of the contrast between original and perturbed (ours)."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """ATCL on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options))


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """L_con(z, z+) + weight L_con(z, z_adv), where the negatives of the second are the others' z_adv.

    Forward 3, backward 3 and one through the network of one view without the weights: the clean view serves both terms
    and the perturbation.
    """
    from rbench.train.contrast import info_nce

    tau = options.temperature
    z, z_plus, X_adv = model.attacked(
        batch, lambda z, z_plus: info_nce(z, [z_plus], z_plus, tau), options.epsilon, options.norm
    )
    z_adv = model.z(X_adv, batch.mask)
    contrastive = info_nce(z, [z_plus], z_plus, tau)
    adversarial = options.weight * info_nce(z, [z_adv], z_adv, tau)
    return {"loss": contrastive + adversarial, "contrastive": contrastive, "adversarial": adversarial}
