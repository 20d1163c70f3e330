"""Heads that are used in training only, and the masked-LM loss as a module that the training loop can call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class MLPHead(nn.Module):
    """A dense layer with tanh, (batch, dim) to (batch, dim) (SimCSE, Gao et al. 2021, section 6.3)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)

    def forward(self, h: Tensor) -> Tensor:
        return torch.tanh(self.dense(h))


class BatchNormHead(nn.Module):
    """Two layers with batch normalisation, (batch, dim) to (batch, dim) (V-advCSE, Ko 2024, section 5).

    The paper says only that. Normalising both layers, ReLU between them and a last normalisation without weights are
    ours, after the projector of SimSiam (Chen and He 2021). Each view of a batch is normalised separately, so that a
    perturbation of zero changes nothing. RobustSentEmbed's public code has these layers with a hidden layer of twice
    the width: `widening` 2.
    """

    def __init__(self, dim: int, widening: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, widening * dim, bias=False),
            nn.BatchNorm1d(widening * dim),
            nn.ReLU(),
            nn.Linear(widening * dim, dim, bias=False),
            nn.BatchNorm1d(dim, affine=False),
        )

    def forward(self, h: Tensor) -> Tensor:
        z: Tensor = self.layers(h)
        return z


class ProjectionHead(nn.Module):
    """g of the ADCL paper (section 3.2, appendix F), (batch, dim) to (batch, out).

    It has a hidden layer with sigmoid, and an output layer with Tanh or without activation. The hidden layer is as wide
    as h (ours).

    Args:
        dim: numbers in h.
        out: numbers in z.
        tanh: whether the output has Tanh.
        hidden: whether there is the hidden layer; the authors' code has none.
        pooler: a dense layer (dim to dim), which comes first and is followed by tanh: BERT's pooler. None: no such.
    """

    def __init__(self, dim: int, out: int, *, tanh: bool, hidden: bool = True, pooler: nn.Linear | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *([] if pooler is None else [pooler, nn.Tanh()]),
            *([nn.Linear(dim, dim), nn.Sigmoid()] if hidden else []),
            nn.Linear(dim, out),
            nn.Tanh() if tanh else nn.Identity(),
        )

    def forward(self, h: Tensor) -> Tensor:
        z: Tensor = self.layers(h)
        return z


def vocabulary_head(masked_lm: Any) -> nn.Module | None:
    """Return the part of a transformers masked LM that maps hidden states to vocabulary logits; None if unknown."""
    return next((getattr(masked_lm, name) for name in ("cls", "lm_head") if hasattr(masked_lm, name)), None)


class MaskedLoss(nn.Module):
    """The masked-LM loss of a transformers model, with its head applied to the masked tokens only.

    The loss equals the model's own. On a tiny model, the logits of all tokens would cost as much as everything else.
    """

    def __init__(self, masked_lm: Any) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self._head = vocabulary_head(masked_lm)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return `loss`, a scalar: the mean cross-entropy over the tokens whose label is not -100."""
        if self._head is None:
            return {"loss": self.masked_lm(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss}
        hidden = self.masked_lm.base_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        masked = labels != -100
        return {"loss": mean_cross_entropy(self._head(hidden[masked]).float(), labels[masked])}


def mean_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits (n, classes) for labels (n,); 0 for n = 0, where the mean is undefined.

    A loss that is not finite stays so: the training stops there.
    """
    return nn.functional.cross_entropy(logits, labels) if len(labels) else logits.sum()


class MaskedBatches(nn.Module):
    """Mask each batch and pass it to `loss`.

    The collator does not mask, because a loader fetches ahead: a resumed run would then draw other masks.
    """

    def __init__(self, loss: MaskedLoss, collator: Any) -> None:
        super().__init__()
        self.loss = loss
        self._collator = collator

    def forward(self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor) -> dict[str, Tensor]:
        """Mask tokens with transformers' collator, which uses torch's global CPU generator, and return their `loss`."""
        ids, labels = self._collator.torch_mask_tokens(input_ids.cpu(), special_tokens_mask=special_tokens_mask.cpu())
        out: dict[str, Tensor] = self.loss(ids.to(input_ids.device), attention_mask, labels.to(input_ids.device))
        return out
