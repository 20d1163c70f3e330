"""What victims have in common: a head on an encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rbench.encoders.sentence import SentenceEncoder


class OnEncoder(nn.Module):
    """A module on top of an encoder, which it shares and does not copy.

    Args:
        encoder: computes the vectors.
        max_length: longest input in tokens; None, or more than the encoder's: the encoder's.
    """

    def __init__(self, encoder: SentenceEncoder, max_length: int | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.max_length = min(max_length or encoder.max_length, encoder.max_length)

    @property
    def tokenizer(self) -> Any:
        """The encoder's tokenizer."""
        return self.encoder.tokenizer

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.encoder.device

    def get_input_embeddings(self) -> nn.Module:
        """Return the network's token embedding layer. Attacks that use gradients put a hook on it."""
        return self.encoder.model.get_input_embeddings()  # type: ignore[no-any-return]
