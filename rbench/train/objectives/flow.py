"""BERT-flow (Li et al. 2020, section 3): a normalising flow from sentence vectors to a Gaussian, encoder frozen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rbench.encoders.locate import flow_missing
from rbench.schema import EncoderSpec, Strict
from rbench.schema.common import Positive

if TYPE_CHECKING:
    from rbench.train.likelihood import LikelihoodObjective

VERSION = 1
missing = flow_missing


class Options(Strict):
    """The sizes are not printed in the paper. The defaults are those of the authors' released code."""

    WHOLE_BATCHES: ClassVar[bool] = True
    """Every batch is full: the first one initialises activation normalisation."""

    levels: Positive = 3
    """Number of levels. Between levels, half of the dimensions are split off."""
    depth: Positive = 3
    """Number of steps in a level."""
    hidden: Positive = 32
    """Width of the hidden layers in a coupling."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> LikelihoodObjective:
    """Build a flow on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
    from rbench.train.likelihood import LikelihoodObjective

    return LikelihoodObjective(spec, base, options)
