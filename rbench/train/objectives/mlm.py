"""Masked language modelling (Devlin et al. 2019, section 3.1).

Of the tokens to predict, 80% become [MASK], 10% become a random token, and 10% stay.
"""

from __future__ import annotations

from pathlib import Path

from rbench.schema import EncoderSpec, Strict
from rbench.train.masked import MaskedEncoding
from rbench.train.options import Portion

VERSION = 1


class Options(Strict):
    """Options of the objective."""

    mask: Portion = 0.15
    """Share of tokens to predict."""


class MaskedLanguageModelling(MaskedEncoding):
    """Implement `Objective` on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        from rbench.train.heads import MaskedBatches, MaskedLoss

        super().__init__(spec, base, options.mask)
        self.model = MaskedBatches(MaskedLoss(self.masked_lm), self.collator)


build = MaskedLanguageModelling
