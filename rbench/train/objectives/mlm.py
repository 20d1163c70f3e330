"""Masked language modelling (Devlin et al. 2019, section 3.1).

Of the tokens to predict, 80% become [MASK], 10% become a random token, and 10% stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rbench.schema import EncoderSpec, Strict
from rbench.train.masked import MaskedEncoding
from rbench.train.objectives import TrainingObjective
from rbench.train.options import OpenShare

if TYPE_CHECKING:
    from rbench.words.resources import Resources

VERSION = 1


class Options(Strict):
    """Options of the objective."""

    mask: OpenShare = 0.15
    """Share of tokens to predict."""


class MaskedLanguageModelling(MaskedEncoding):
    """Implement `Objective` on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        from rbench.train.heads import MaskedBatches, MaskedLMLoss

        super().__init__(spec, base, options.mask)
        self.model = MaskedBatches(MaskedLMLoss(self.masked_lm), self.collator)


class MlmTraining(TrainingObjective[Options]):
    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> MaskedLanguageModelling:
        """Build it on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        return MaskedLanguageModelling(options, spec, base)
