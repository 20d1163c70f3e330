"""What objectives share whose batches carry texts, because they replace words in them (ADCL, BTCL, distillation)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.train.contrastive import EncoderObjective


class TextObjective(EncoderObjective):
    """The common part of objectives that replace words of their sentences: batches hold the sentences too."""

    def features(self, text: str) -> dict[str, Any]:
        """Return the features of `Encoding.features` and the text itself."""
        return {**super().features(text), "text": text}

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return input_ids and attention_mask, (n, longest) each, and `texts`, a list of n strings."""
        rows = [{name: row[name] for name in ("input_ids", "attention_mask")} for row in batch]
        return {**super().collate(rows), "texts": [row["text"] for row in batch]}


class TextModel(nn.Module):
    """An encoder that is trained, and sums over the whole training.

    Args:
        max_length: edited texts are cut there, in tokens.
        counts: names of the sums.
    """

    def __init__(self, encoder: SentenceEncoder, max_length: int, counts: Sequence[str]) -> None:
        super().__init__()
        self.encoder, self.max_length = encoder, max_length
        self.tally = RunningSums(*counts)

    def frozen_copy(self) -> SentenceEncoder:
        """Return a copy of the encoder, without gradients."""
        own = self.encoder
        network = copy.deepcopy(own.model)
        made = SentenceEncoder(network, own.tokenizer, own.pooling, own.max_length, settings=own.settings)
        return made.requires_grad_(False)

    def tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return input_ids and attention_mask of texts, (n, longest) each, encoded as the training loop encodes them.

        They are on the device of the encoder.
        """
        encoded = self.encoder.tokenizer(
            list(texts),
            truncation=True,
            max_length=self.max_length,
            padding=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        return dict(encoded.to(self.encoder.device))

    def check_whole(self, texts: Sequence[str], input_ids: Tensor, why: str) -> None:
        """Raise JobError if the texts are not as many as the rows of a batch, because several GPUs share it."""
        if len(texts) != len(input_ids):
            raise JobError(f"{why} and trains on one GPU: set CUDA_VISIBLE_DEVICES to one.")


class RunningSums(nn.Module):
    """Sums over a whole training by name, from 0. Checkpoints hold them, in the order of their names."""

    total: Tensor

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self.register_buffer("total", torch.zeros(len(names), dtype=torch.float64))

    def add(self, **more: float | Tensor) -> None:
        """Add to sums by name."""
        for name, value in more.items():
            self.total[self._names.index(name)] += float(value)

    def sums(self) -> dict[str, float]:
        """Return all sums by name."""
        return dict(zip(self._names, self.total.tolist(), strict=True))
