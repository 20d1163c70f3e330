"""Unsupervised SimCSE (Gao et al. 2021, sections 3 and 6.3): a sentence twice under dropout is a positive pair.

The paper is not at hand; V-advCSE (Ko 2024, equation 7), which is, restates the loss.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.spec import EncoderSpec
from rbench.train.options import Contrastive

if TYPE_CHECKING:
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel

VERSION = 1


class Options(Contrastive):
    """The paper's, as we remember them: temperature 0.05, dropout 0.1 (the base's), CLS and, in training, an MLP."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """SimCSE on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options))


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """Equation 4. Two forward and two backward passes."""
    from rbench.train.contrast import info_nce

    _, z, z_plus = model.twice(model.embed(batch), batch.mask)
    return {"loss": info_nce(z, [z_plus], z_plus, options.temperature)}
