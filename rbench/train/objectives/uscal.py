"""USCAL (Miao et al. 2021): contrastive learning regularised by an adversarial contrastive term, without labels.

The paper is not at hand; this is how RobustSentEmbed (Asl et al. 2024, section 2) describes it: benign and adversarial
contrastive learning together, the second as a regulariser, adversarial examples made with the contrastive loss itself.
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
    """USCAL on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options))


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """L_con(z, z+) + weight L_con(z_adv, z+); passes as in `with_adversarial_term`."""
    from rbench.train.contrast import info_nce
    from rbench.train.contrastive import with_adversarial_term

    return with_adversarial_term(
        options, model, batch, lambda z, z_plus, z_adv: info_nce(z_adv, [z_plus], z_plus, options.temperature)
    )
