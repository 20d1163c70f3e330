"""BERT-flow (Li et al. 2020, section 3): a normalising flow from sentence vectors to a Gaussian, encoder frozen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rbench.encoders.locate import why_no_flow
from rbench.schema import EncoderSpec, Strict
from rbench.schema.common import Positive
from rbench.train.objectives import TrainingObjective

if TYPE_CHECKING:
    from rbench.train.likelihood import LikelihoodObjective
    from rbench.words.resources import Resources

VERSION = 1


class Options(Strict):
    """The sizes are not printed in the paper. The defaults are those of the authors' released code."""

    levels: Positive = 3
    """Number of levels. Between levels, half of the dimensions are split off."""
    depth: Positive = 3
    """Number of steps in a level."""
    hidden: Positive = 32
    """Width of the hidden layers in a coupling."""


class FlowTraining(TrainingObjective[Options]):
    full_batches = True
    """Every batch is full: the first one initialises activation normalisation."""

    def missing(self) -> str:
        """Return what is not installed of what a flow needs."""
        return why_no_flow()

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> LikelihoodObjective:
        """Build a flow on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.likelihood import LikelihoodObjective

        return LikelihoodObjective(spec, base, options)
