"""A classifier: an encoder with a linear head. It is the victim of attacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from safetensors.torch import load_file
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from rbench.encoders.on_encoder import ABOUT, FORMAT, HEAD, OnEncoder
from rbench.encoders.sentence import SentenceEncoder
from rbench.encoders.settings import Settings
from rbench.errors import ResourceError

VERSION = 1


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

    def __init__(
        self, encoder: SentenceEncoder, num_labels: int, dropout: float | None = None, max_length: int | None = None
    ) -> None:
        super().__init__(encoder, max_length)
        if num_labels < 2:
            raise ValueError(f"a classifier needs at least two labels, not {num_labels}")
        self.dropout = nn.Dropout(_own_dropout(encoder) if dropout is None else dropout)
        self.head = nn.Linear(encoder.dim, num_labels, device=encoder.device)
        # Normal with a small deviation, as transformers initialises heads. Torch's default is wider for small `dim`.
        nn.init.normal_(self.head.weight, std=float(getattr(encoder.model.config, "initializer_range", 0.02)))
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
    def load(cls, folder: Path, device: str = "cpu", *, trust_remote_code: bool = False) -> tuple[Self, dict[str, Any]]:
        """Read what `save` wrote. Return the classifier, in eval mode on `device`, and its meta.

        On the same device, logits equal those before saving bit for bit.

        Raises:
            ResourceError: there is no such folder, `save` did not write it, its format differs, or it is damaged.
        """
        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if about["format"] != FORMAT:
                raise ResourceError(f"{folder}: a classifier of format {about['format']}; this rbench reads {FORMAT}")
            encoder = SentenceEncoder.open(
                folder,
                pooling=about["pooling"],
                max_length=about["encoder_max_length"],
                trust_remote_code=trust_remote_code,
                name=folder.name,
                settings=Settings(**about.get("settings", {})),
            )
            classifier = cls(encoder, about["num_labels"], about["dropout"], about["max_length"])
            classifier.head.load_state_dict(load_file(folder / HEAD))
            meta = about["meta"]
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ResourceError(
                f"{folder}: not a classifier that rbench saved ({type(error).__name__}: {error})"
            ) from error
        return classifier.to(device).eval(), meta


def _own_dropout(encoder: SentenceEncoder) -> float:
    config = encoder.model.config
    value = getattr(config, "hidden_dropout_prob", None)
    if value is None:
        value = getattr(config, "dropout", None)  # the name in DistilBERT's config
    return 0.1 if value is None else float(value)
