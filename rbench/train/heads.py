"""Heads on top of models, used while training only, and the masked-LM loss in the form in which the loop takes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class MLPHead(nn.Module):
    """A dense layer and tanh on the sentence vector (SimCSE, Gao et al. 2021, section 6.3): (batch, dim) in and out."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)

    def forward(self, h: Tensor) -> Tensor:
        return torch.tanh(self.dense(h))


class BatchNormHead(nn.Module):
    """Two layers with batch normalisation (V-advCSE, Ko 2024, section 5): (batch, dim) in and out.

    The paper says no more than that; that each layer is normalised, that ReLU is between them and that the last
    normalisation has no weights is ours, after the projector of SimSiam (Chen and He 2021). Each view of a batch is
    normalised by itself, so that a perturbation of zero changes nothing.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, dim, bias=False),
            nn.BatchNorm1d(dim),
            nn.ReLU(),
            nn.Linear(dim, dim, bias=False),
            nn.BatchNorm1d(dim, affine=False),
        )

    def forward(self, h: Tensor) -> Tensor:
        z: Tensor = self.layers(h)
        return z


class ProjectionHead(nn.Module):
    """g of the ADCL paper (section 3.2, appendix F): a hidden layer of sigmoid, then Tanh or nothing: (batch, dim) to
    (batch, out). The hidden layer is as wide as h (ours)."""

    def __init__(self, dim: int, out: int, *, tanh: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, dim), nn.Sigmoid(), nn.Linear(dim, out), nn.Tanh() if tanh else nn.Identity()
        )

    def forward(self, h: Tensor) -> Tensor:
        z: Tensor = self.layers(h)
        return z


def vocabulary_head(masked_lm: Any) -> nn.Module | None:
    """The part of a transformers masked LM that turns states into scores of the vocabulary; None if it is not known."""
    return next((getattr(masked_lm, name) for name in ("cls", "lm_head") if hasattr(masked_lm, name)), None)


class MaskedLoss(nn.Module):
    """The masked-LM loss of a transformers model, with its head applied to the masked tokens only.

    The same loss as the model's own; on a tiny model, scoring the vocabulary for every token costs as much as the rest.
    """

    def __init__(self, masked_lm: Any) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self._head = vocabulary_head(masked_lm)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Mean cross-entropy over the tokens whose label is not -100, as `loss` (a scalar)."""
        if self._head is None:
            return {"loss": self.masked_lm(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss}
        hidden = self.masked_lm.base_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        masked = labels != -100
        loss = nn.functional.cross_entropy(self._head(hidden[masked]).float(), labels[masked])
        # A batch without a masked token has no mean; it teaches nothing.
        return {"loss": torch.nan_to_num(loss)}


class MaskedBatches(nn.Module):
    """Masks each batch and gives it to `loss`.

    Here and not in the collator: a loader fetches ahead, so that a run resumed at a step would draw other masks.
    """

    def __init__(self, loss: MaskedLoss, collator: Any) -> None:
        super().__init__()
        self.loss = loss
        self._collator = collator

    def forward(self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor) -> dict[str, Tensor]:
        """As `MaskedLoss`, of tokens that transformers' collator chooses with torch's global generator of the CPU."""
        ids, labels = self._collator.torch_mask_tokens(input_ids.cpu(), special_tokens_mask=special_tokens_mask.cpu())
        out: dict[str, Tensor] = self.loss(ids.to(input_ids.device), attention_mask, labels.to(input_ids.device))
        return out
