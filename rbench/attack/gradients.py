"""Gradients of a victim's log-odds at its token embeddings, many texts in one forward and one backward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rbench.inference import GradientNetwork, Row


class Labelled(NamedTuple):
    """A text as its token ids, and the label against which the odds are taken."""

    row: Row
    label: int


class LogOddsGradients(NamedTuple):
    """What one forward and one backward pass say of a text."""

    logits: Tensor
    """(labels,), float32."""
    embeddings: Tensor
    """(tokens, dim): gradient of the log-odds at the token embeddings."""


def at_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Gradient of m = logsumexp(l_k, k != y) - l_y at the logits (n, labels), for labels y (n, 1)."""
    return logits.scatter(1, labels, -math.inf).softmax(dim=1).scatter(1, labels, -1.0)


def log_odds_gradients(classifier: Any, wanted: Sequence[Labelled]) -> list[LogOddsGradients]:
    """Gradients of m for each text; on the CPU.

    A text's gradient does not depend on what it is batched with where `classifier` is `rbench.inference.steady`, on a
    CPU.
    """
    labels = torch.tensor([label for _, label in wanted], device=classifier.device).unsqueeze(1)
    tokenizer = classifier.tokenizer
    network = GradientNetwork(
        classifier,
        lambda module, **inputs: module(**inputs).logits,
        classifier.get_input_embeddings(),
        classifier.device,
        pad=(tokenizer.pad_token_id or 0, tokenizer.pad_token_type_id),
    )
    found = network([row for row, _ in wanted], lambda logits, places: at_logits(logits, labels[places]))
    return [LogOddsGradients(one.answer.float().cpu(), one.embeddings) for one in found]
