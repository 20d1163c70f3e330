"""Masked language modelling (Devlin et al. 2019, section 3.1).

Of the tokens to predict, 80% become [MASK], 10% become a random token, and 10% stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from rbench.spec import EncoderSpec, Strict
from rbench.train.masked import MaskedEncoding

VERSION = 1


class Options(Strict):
    """Options of the objective."""

    mask: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of tokens to predict."""


class MaskedLanguageModelling(MaskedEncoding):
    """Implement `Objective` on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        from transformers import DataCollatorForLanguageModeling

        from rbench.encoders.reading import longest_input
        from rbench.train.heads import MaskedBatches, MaskedLoss
        from rbench.train.origin import masked_lm

        assert spec.train is not None
        model, tokenizer = masked_lm(spec, base)
        super().__init__(spec, model, tokenizer, min(spec.train.max_length, longest_input(model, tokenizer)))
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=options.mask)
        self.model = MaskedBatches(MaskedLoss(model), collator)


build = MaskedLanguageModelling
