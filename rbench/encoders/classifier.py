"""A classifier: an encoder with a linear head. It is the victim of attacks.

`OnEncoder` is what it has in common with a scorer of pairs (`rbench.encoders.scorer`).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from rbench.encoders.locate import ENDPOINT
from rbench.encoders.reading import ReadingSettings, count_prompt_tokens
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.system.own_code import failing_in

# Part of the key of every fine-tuning and of what is asked of a victim (config/versions.py): raising it trains all
# victims anew, with all attacks on them.
VERSION = 1
USES = ("encoders.reading", "encoders.sentence")
"""An encoder behind an endpoint is not listed, because only victims that have one use it."""

# Raising it makes every saved victim unreadable, also those that users keep outside the cache.
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

    KIND: ClassVar[str]
    """What it is: the `kind` in its `rbench.json`, where a classifier has none."""

    def __init__(self, encoder: SentenceEncoder, max_length: int | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.max_length = min(max_length or encoder.max_length, encoder.max_length)
        if self.max_length <= (prompt := count_prompt_tokens(encoder.tokenizer)):
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

    @classmethod
    @abstractmethod
    def restored(cls, encoder: SentenceEncoder, about: dict[str, Any], head: dict[str, Tensor]) -> Self:
        """Return what was saved, of its encoder, what is said `about` it, and the weights of its head."""

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> tuple[Self, dict[str, Any]]:
        """Read what `save` wrote. Return the victim, in eval mode on `device`, and its meta.

        On the same device, its answers equal those before saving bit for bit.

        Raises:
            ResourceError: there is no such folder, `save` did not write it, its format differs, or it is damaged.
        """
        with failing_in(folder, remedy=f"It is not a {cls.KIND} that this rbench saved"):
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if (kind_and_format := (about.get("kind", "classifier"), about["format"])) != (cls.KIND, FORMAT):
                raise ValueError(
                    f"kind {kind_and_format[0]}, format {kind_and_format[1]}; this rbench reads {cls.KIND}, {FORMAT}"
                )
            encoder = _open_encoder(folder, about)
            victim, meta = cls.restored(encoder, about, load_file(folder / HEAD)), about["meta"]
        return victim.to(device).eval(), meta

    def write(self, folder: Path, head: nn.Module, about: dict[str, Any]) -> None:
        """Write config, tokenizer, weights, head and what is said `about` them (JSON values) to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.encoder.save(folder)
        save_file({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, folder / HEAD)
        fields = {
            "format": FORMAT,
            "pooling": self.encoder.pooling,
            "max_length": self.max_length,
            "encoder_max_length": self.encoder.max_length,
            **({"settings": settings} if (settings := self.encoder.settings.stated()) else {}),
            **about,
        }
        (folder / ABOUT).write_text(
            json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _open_encoder(folder: Path, about: dict[str, Any]) -> SentenceEncoder:
    settings = ReadingSettings(**about.get("settings", {}))
    if (folder / ENDPOINT).is_file():
        from rbench.encoders.remote import RemoteEncoder

        return RemoteEncoder.restored(folder, settings)
    longest = about["encoder_max_length"]
    return SentenceEncoder.open(
        folder, pooling=about["pooling"], max_length=longest, name=folder.name, settings=settings
    )


class EncoderClassifier(OnEncoder):
    """`encoder`, then dropout, then one linear layer (`head`) to `num_labels` logits.

    Training changes the encoder's network and the head. A whitening or flow after pooling stays fixed, as in the
    papers, and gradients pass through it. (Training a linear map before the linear head would add nothing.)

    Args:
        encoder: computes the vectors; shared, not copied.
        num_labels: number of classes, at least 2.
        dropout: dropout before the head, in 0..1; None: the network's hidden dropout, or 0.1 if it has none.
        max_length: longest input in tokens, for the caller that tokenises; None, or more than the encoder's: the
            encoder's.
    """

    KIND = "classifier"

    def __init__(
        self, encoder: SentenceEncoder, num_labels: int, dropout: float | None = None, max_length: int | None = None
    ) -> None:
        super().__init__(encoder, max_length)
        config: Any = encoder.model.config
        if dropout is None:  # `dropout` is the name in DistilBERT's config
            dropouts = (getattr(config, name, None) for name in ("hidden_dropout_prob", "dropout"))
            dropout = next((float(value) for value in dropouts if value is not None), 0.1)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.dim, num_labels, device=encoder.device)
        # Normal with a small deviation, as transformers initialises heads. Torch's default is wider for small `dim`.
        nn.init.normal_(self.head.weight, std=float(getattr(config, "initializer_range", 0.02)))
        nn.init.zeros_(self.head.bias)
        self.num_labels = num_labels

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> SequenceClassifierOutput:
        """Return logits (batch, num_labels), always in float32, and, if `labels` (batch,) are given, the cross-entropy.

        Inputs are (batch, length); `inputs_embeds` is (batch, length, width) and replaces `input_ids`.
        """
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "inputs_embeds": inputs_embeds,
        }
        vectors = self.encoder(**{name: value for name, value in given.items() if value is not None})
        logits = self.head(self.dropout(vectors)).float()
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def save(self, folder: Path, meta: dict[str, Any]) -> None:
        """Write config, tokenizer, weights and `meta` (JSON values of the caller) to `folder`, for `load`."""
        self.write(folder, self.head, {"num_labels": self.num_labels, "dropout": self.dropout.p, "meta": meta})

    @classmethod
    def restored(cls, encoder: SentenceEncoder, about: dict[str, Any], head: dict[str, Tensor]) -> Self:
        classifier = cls(encoder, about["num_labels"], about["dropout"], about["max_length"])
        classifier.head.load_state_dict(head)
        return classifier


VICTIM = EncoderClassifier
"""The victims of this module, for `rbench.encoders.load_victim`."""
