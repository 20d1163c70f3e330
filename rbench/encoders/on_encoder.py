"""What victims have in common: a head on an encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from rbench.encoders.reading import prompt_tokens
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError

FORMAT = 1
ABOUT, HEAD = "rbench.json", "head.safetensors"


class OnEncoder(nn.Module):
    """A module on top of an encoder, which it shares and does not copy.

    Args:
        encoder: computes the vectors.
        max_length: longest input in tokens; None, or more than the encoder's: the encoder's.

    Raises:
        JobError: `max_length` leaves no room for a text after the prompt.
    """

    def __init__(self, encoder: SentenceEncoder, max_length: int | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.max_length = min(max_length or encoder.max_length, encoder.max_length)
        if self.max_length <= (prompt := prompt_tokens(encoder.tokenizer)):
            raise JobError(
                f"texts are cut at {self.max_length} tokens, and the encoder's prompt alone has {prompt}; raise "
                "`max_length` of the fine-tuning, or shorten the prompt"
            )

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

    def write(self, folder: Path, head: nn.Module, about: dict[str, Any]) -> None:
        """Write config, tokenizer, weights, head and what is said `about` them (JSON values) to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.encoder.save(folder)
        save_file({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, folder / HEAD)
        said = {
            "format": FORMAT,
            "pooling": self.encoder.pooling,
            "max_length": self.max_length,
            "encoder_max_length": self.encoder.max_length,
            **({"settings": stated} if (stated := self.encoder.settings.stated()) else {}),
            **about,
        }
        (folder / ABOUT).write_text(
            json.dumps(said, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
