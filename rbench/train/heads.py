"""Loss modules around models, in the form in which the loop takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class MaskedLoss(nn.Module):
    """The masked-LM loss of a transformers model, with its head applied to the masked tokens only.

    The same loss as the model's own; on a tiny model, scoring the vocabulary for every token costs as much as the rest.
    """

    def __init__(self, masked_lm: Any) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        heads = [getattr(masked_lm, name) for name in ("cls", "lm_head") if hasattr(masked_lm, name)]
        self._head = heads[0] if heads else None

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Mean cross-entropy over the tokens whose label is not -100, as `loss` (a scalar)."""
        if self._head is None:
            return {"loss": self.masked_lm(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss}
        hidden = self.masked_lm.base_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        masked = labels != -100
        loss = nn.functional.cross_entropy(self._head(hidden[masked]).float(), labels[masked])
        # A batch without a masked token has no mean; it teaches nothing.
        return {"loss": torch.nan_to_num(loss)}
