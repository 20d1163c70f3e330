"""Compute gradients of a victim's log-odds at its token embeddings, for many texts in one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rbench.encoders.batching import Batching
from rbench.inference import GradientNetwork, Row, padding_of


class Labelled(NamedTuple):
    """A text as token ids, and the label y of its log-odds."""

    row: Row
    label: int


class LogOddsGradients(NamedTuple):
    """The result of one forward and one backward pass for a text, on the CPU."""

    logits: Tensor
    """(labels,), float32."""
    embeddings: Tensor
    """(tokens, dim), gradient of m (see `at_logits`) at the token embeddings."""


def at_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient (n, labels) of m = logsumexp(l_k, k != y) - l_y at the logits l (n, labels).

    m is the log-odds against the label y. `labels` has the shape (n, 1).
    """
    return logits.scatter(1, labels, -math.inf).softmax(dim=1).scatter(1, labels, -1.0)


def log_odds_gradients(classifier: Any, wanted: Sequence[Labelled]) -> list[LogOddsGradients]:
    """Return the gradient of m for each text, on the CPU.

    If `classifier` is `rbench.inference.steady` and on a CPU, a text's gradient does not depend on the other texts of
    its batch.
    """
    labels = torch.tensor([label for _, label in wanted], device=classifier.device).unsqueeze(1)
    network = GradientNetwork(
        classifier,
        lambda module, **inputs: module(**inputs).logits,
        classifier.get_input_embeddings(),
        classifier.device,
        pad=getattr(classifier, "pad", None) or padding_of(classifier.tokenizer),
        step=getattr(classifier, "batching", Batching()).step,
    )
    found = network([row for row, _ in wanted], lambda logits, places: at_logits(logits, labels[places]))
    return [LogOddsGradients(one.answer.float().cpu(), one.embeddings) for one in found]
