"""BERT-flow (Li et al. 2020, section 3): a normalising flow from sentence vectors to a Gaussian, the encoder frozen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rbench.spec import EncoderSpec, Strict
from rbench.spec.words import Positive

if TYPE_CHECKING:
    from rbench.train.likelihood import LikelihoodObjective

VERSION = 1


class Options(Strict):
    """Not printed in the paper; these are the sizes that the authors' released code comes with."""

    WHOLE_BATCHES: ClassVar[bool] = True
    """Activation normalisation takes its start from the first batch."""

    levels: Positive = 3
    """Levels, between which half of the numbers is done with."""
    depth: Positive = 3
    """Steps in a level."""
    hidden: Positive = 32
    """Units of a hidden layer in a coupling."""


def missing() -> str:
    """What to say where normflows is not installed; empty where it is."""
    from rbench.encoders.locate import flow_missing

    return flow_missing()


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> LikelihoodObjective:
    """A flow on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.likelihood import LikelihoodObjective

    return LikelihoodObjective(spec, base, options.levels, options.depth, options.hidden)
