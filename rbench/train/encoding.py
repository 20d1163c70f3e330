"""From texts to batches of token ids, the same for every objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class Encoding:
    """`features` and `collate` of an `Objective`, with a transformers tokenizer.

    Args:
        tokenizer: the encoder's.
        max_length: where texts are cut, in tokens.
    """

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer = tokenizer
        self._max_length = max_length

    def features(self, text: str) -> dict[str, Any]:
        """input_ids, attention_mask and special_tokens_mask; token types are left to the network's default."""
        encoded = self.tokenizer(
            text,
            truncation=True,
            max_length=self._max_length,
            return_special_tokens_mask=True,
            return_token_type_ids=False,
        )
        return dict(encoded)

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """The same keys, (batch, longest of the batch) each."""
        return dict(self.tokenizer.pad(list(batch), return_tensors="pt"))
