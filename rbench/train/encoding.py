"""Turn texts into batches of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.encoders.sentence import SentenceEncoder


class Encoding:
    """Implement `features` and `collate` of an `Objective` with a transformers tokenizer.

    Args:
        tokenizer: the encoder's tokenizer.
        max_length: texts are cut at this number of tokens.
    """

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer = tokenizer
        self._max_length = max_length

    def features(self, text: str) -> dict[str, Any]:
        """Return input_ids, attention_mask and special_tokens_mask. Token types are left at the network's default."""
        encoded = self.tokenizer(
            text,
            truncation=True,
            max_length=self._max_length,
            return_special_tokens_mask=True,
            return_token_type_ids=False,
        )
        return dict(encoded)

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Return the same keys as `features`, padded to (batch, longest of the batch)."""
        return dict(self.tokenizer.pad(list(batch), return_tensors="pt"))


def tokens(encoder: SentenceEncoder, texts: Sequence[str], max_length: int) -> dict[str, Tensor]:
    """Return input_ids and attention_mask of texts, (n, longest) each, on the device of the encoder.

    Args:
        max_length: texts are cut at this number of tokens.
    """
    encoded = encoder.tokenizer(
        list(texts),
        truncation=True,
        max_length=max_length,
        padding=True,
        return_token_type_ids=False,
        return_tensors="pt",
    )
    return dict(encoded.to(encoder.device))
