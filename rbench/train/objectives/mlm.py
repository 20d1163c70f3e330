"""Masked language modelling (Devlin et al. 2019, section 3.1): of the chosen tokens 80% become [MASK], 10% another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from rbench.spec import EncoderSpec, Strict
from rbench.train.encoding import Encoding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn


class Options(Strict):
    """Options of the objective."""

    mask: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of tokens that are to be predicted."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> MaskedLanguageModelling:
    """A masked LM on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    return MaskedLanguageModelling(options, spec, base)


class MaskedLanguageModelling(Encoding):
    """Implements `Objective`."""

    grouped = True

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        from transformers import DataCollatorForLanguageModeling

        from rbench.train.heads import MaskedBatches, MaskedLoss
        from rbench.train.origin import masked_lm

        assert spec.train is not None
        self._spec = spec
        self.masked_lm, tokenizer = masked_lm(spec, base)
        super().__init__(tokenizer, spec.train.max_length)
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=options.mask)
        self.model = MaskedBatches(MaskedLoss(self.masked_lm), collator)
        self.kept: nn.Module = self.masked_lm

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (len(texts), dim) with the encoder's pooling. ResourceError where the network has no such pooling."""
        from rbench.encoders.sentence import SentenceEncoder

        network = self.masked_lm.base_model
        spec = self._spec
        return SentenceEncoder(network, self.tokenizer, spec.pooling, spec.max_length, spec.name).encode(texts)

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """`masked_accuracy`: share of masked tokens (15%, every one as [MASK]) whose best prediction is right, 0..1."""
        import torch

        correct = total = 0
        generator = torch.Generator().manual_seed(0)
        self.masked_lm.eval()
        for start in range(0, len(texts), 64):
            batch = self.tokenizer(
                list(texts[start : start + 64]),
                padding=True,
                truncation=True,
                max_length=self._max_length,
                return_special_tokens_mask=True,
                return_tensors="pt",
            )
            special = batch.pop("special_tokens_mask").bool()
            ids = batch["input_ids"]
            chosen = (torch.rand(ids.shape, generator=generator) < 0.15) & ~special
            batch["input_ids"] = ids.masked_fill(chosen, self.tokenizer.mask_token_id)
            with torch.inference_mode():
                logits = self.masked_lm(**batch.to(self.masked_lm.device)).logits.cpu()
            correct += int((logits.argmax(-1) == ids)[chosen].sum())
            total += int(chosen.sum())
        return {"masked_accuracy": correct / total} if total else {}

    def save(self, folder: Path) -> None:
        """With the masked-LM head; where sentence-transformers knows the pooling, also as a SentenceTransformer."""
        from rbench.encoders.sentence import longest_input
        from rbench.train import layout

        self.masked_lm.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)
        if self._spec.pooling in layout.EXPRESSIBLE:
            longest = longest_input(self.masked_lm, self.tokenizer)
            layout.write(
                folder,
                pooling=self._spec.pooling,
                dim=self.masked_lm.config.hidden_size,
                max_length=min(self._spec.max_length or longest, longest),
            )
