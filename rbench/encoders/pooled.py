"""Make one vector of the hidden states of a text's tokens.

The poolings but `cls+mlp` and `first-last-mean` are those of sentence-transformers, with its numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rbench.spec import Pooling

VERSION = 1


def pool(pooling: Pooling, outputs: Any, mask: Tensor | None, skip: int = 0) -> Tensor:
    """Return a vector for each text, (batch, dim).

    Args:
        pooling: `cls`: the last hidden state of the first token. `last`: that of the last token. `cls+mlp`: the output
            of BERT's pooler (dense layer and tanh on the first token's state), which SimCSE trains. `mean`: the mean of
            the last hidden states. `weighted-mean`: their mean weighted by position, 1 for the first token. `max`:
            their largest values. `sqrt-mean`: their sum divided by the square root of their number. `first-last-mean`:
            the mean over the average of hidden_states[0] (the embedding layer's output) and hidden_states[-1], which
            is `avg_first_last` in SimCSE's code (Gao et al. 2021).
        outputs: of a transformers network, with `hidden_states` for `first-last-mean`.
        mask: (batch, length), 1 for tokens and 0 for padding on either side; None: there is no padding.
        skip: number of tokens at the start of a text that are not pooled. `cls` then takes the token after them.
    """
    if pooling == "cls+mlp":
        return outputs.pooler_output  # type: ignore[no-any-return]
    states: Tensor = outputs.last_hidden_state
    if pooling == "first-last-mean":
        states = (outputs.hidden_states[0] + outputs.hidden_states[-1]) / 2
    if mask is None:
        mask = torch.ones(states.shape[:2], dtype=torch.int64, device=states.device)
    positions = mask.cumsum(dim=1)
    counted = mask * (positions > skip).to(mask.dtype) if skip else mask
    if pooling in ("cls", "last"):
        wanted = counted * (positions if pooling == "last" else positions == skip + 1)
        # A gather, because a trace (OpenVINO) keeps no number of rows.
        places = wanted.argmax(dim=1).view(-1, 1, 1).expand(-1, 1, states.shape[-1])
        return states.gather(1, places).squeeze(1)
    if pooling == "max":
        return states.masked_fill(counted.unsqueeze(-1) == 0, float("-inf")).amax(dim=1)
    if pooling == "weighted-mean":
        return masked_mean(states, counted * positions)
    mean = masked_mean(states, counted)
    return mean * counted.sum(dim=1, keepdim=True).to(mean.dtype).sqrt() if pooling == "sqrt-mean" else mean


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (batch, dim) of `states` (batch, length, dim) where `mask` (batch, length) is 1.

    Other numbers of `mask` are weights.
    """
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
