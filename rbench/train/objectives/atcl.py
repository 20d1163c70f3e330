"""ATCL (Rim et al. 2021, arXiv 2109.09075): a linear perturbation, and contrast between the original and the perturbed.

The paper is not at hand. As we remember it, it perturbs input embeddings by the fast gradient method with the loss of
its task (language modelling or translation) and adds a contrastive term that keeps original and perturbed
representations close. The RobustSentEmbed tables have it as a sentence encoder without saying how; here the task is
SimCSE's loss.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.spec import EncoderSpec
from rbench.train.options import AdversarialTerm

if TYPE_CHECKING:
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel

VERSION = 1


class Options(AdversarialTerm):
    """All values are ours, tau excepted, which is SimCSE's."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """ATCL on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options))


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """L_con(z, z+) + weight L_con(z, z_adv), where the negatives of the second are the others' z_adv.

    Passes as in `with_adversarial_term`.
    """
    from rbench.train.contrast import info_nce
    from rbench.train.contrastive import with_adversarial_term

    return with_adversarial_term(
        options, model, batch, lambda z, z_plus, z_adv: info_nce(z, [z_adv], z_adv, options.temperature)
    )
