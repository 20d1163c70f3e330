"""The common part of objectives that train a masked LM and keep its head: vectors, a score, saving.

Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.encoders.reading import ReadingSettings, find_longest_input, prepare_tokenizer
from rbench.schema import EncoderSpec, KindName
from rbench.train import models
from rbench.train.objectives._trained import Encoding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from rbench.encoders.sentence import SentenceEncoder

VERSION = 1


class MaskedEncoding(Encoding):
    """Implement `encode`, `scores` and `save` of an `Objective` whose encoder is a transformers masked LM.

    Args:
        base: a folder or hub id; None: `spec.architecture`.
        mask: share of tokens that `collator` masks, 0..1.
    """

    grouped = True

    def __init__(self, spec: EncoderSpec, base: str | Path | None, mask: float) -> None:
        from transformers import DataCollatorForLanguageModeling

        assert spec.train is not None
        self.masked_lm, tokenizer = models.open_masked_lm(spec, base)
        tokenizer = prepare_tokenizer(tokenizer, ReadingSettings(lowercase=spec.lowercase))
        super().__init__(tokenizer, min(spec.train.max_length, find_longest_input(self.masked_lm, tokenizer)))
        self._spec = spec
        self.kept: nn.Module = self.masked_lm
        self.collator: Any = DataCollatorForLanguageModeling(tokenizer, mlm_probability=mask)

    def _encoder(self, kind: KindName | None, max_length: int | None) -> SentenceEncoder:
        """Return the encoder that `save` writes. ResourceError if the network cannot have its pooling."""
        from rbench.encoders.sentence import SentenceEncoder

        network, spec = self.masked_lm.base_model, self._spec
        settings = ReadingSettings.of(spec, kind)
        return SentenceEncoder(network, self.tokenizer, spec.pooling, max_length, spec.name, settings=settings)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) with the encoder's pooling. ResourceError if the network cannot have it."""
        return self._encoder("sts", self._spec.max_length).encode(texts)

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return `masked_accuracy`, 0..1: the share of masked tokens whose most likely prediction is right.

        15% of the tokens are masked, all of them by [MASK], with a generator of seed 0.
        """
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
            # Always [MASK] and always these tokens: the score must not change with the options of the training.
            is_masked = (torch.rand(ids.shape, generator=generator) < 0.15) & ~special
            batch["input_ids"] = ids.masked_fill(is_masked, self.tokenizer.mask_token_id)
            with torch.inference_mode():
                logits = self.masked_lm(**batch.to(self.masked_lm.device)).logits.cpu()
            correct += int((logits.argmax(-1) == ids)[is_masked].sum())
            total += int(is_masked.sum())
        return {"masked_accuracy": correct / total} if total else {}

    def save(self, folder: Path) -> None:
        """Write the encoder with its masked-LM head, and as a SentenceTransformer too if that has the pooling."""
        self.masked_lm.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)
        if self._spec.pooling in models.SAVABLE_POOLINGS:
            longest = find_longest_input(self.masked_lm, self.tokenizer)
            models.write(folder, self._encoder(None, min(self._spec.max_length or longest, longest)))
