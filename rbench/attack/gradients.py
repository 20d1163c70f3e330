"""Gradients of a victim's log-odds at its token embeddings, many texts in one forward and one backward pass."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rbench.inference import Row

MAX_TOKENS = {"cpu": 2048, "cuda": 1 << 14}
"""Tokens in one batch: the backward pass keeps what every layer computed."""


class Labelled(NamedTuple):
    """A text as its token ids, and the label against which the odds are taken."""

    row: Row
    label: int


class Slope(NamedTuple):
    """What one forward and one backward pass say of a text."""

    logits: Tensor
    """(labels,), float32."""
    embeddings: Tensor
    """(tokens, dim): gradient of the log-odds at the token embeddings."""


def slopes(classifier: Any, wanted: Sequence[Labelled]) -> list[Slope]:
    """Gradients of m = logsumexp(l_k, k != y) - l_y for each text, in batches of equal length; on the CPU.

    A text's gradient does not depend on what it is batched with where `classifier` is `rbench.inference.steady`: there
    is no padding, and texts do not mix.
    """
    lengths: dict[int, list[int]] = defaultdict(list)
    for place, (row, _) in enumerate(wanted):
        lengths[len(row[0])].append(place)
    found: list[Slope | None] = [None] * len(wanted)
    for length, places in sorted(lengths.items()):
        size = max(1, MAX_TOKENS[classifier.device.type] // max(1, length))
        for start in range(0, len(places), size):
            chunk = places[start : start + size]
            for place, slope in zip(chunk, _batch(classifier, [wanted[i] for i in chunk]), strict=True):
                found[place] = slope
    return [slope for slope in found if slope is not None]


def _batch(classifier: Any, wanted: list[Labelled]) -> list[Slope]:
    device = classifier.device
    inputs = {"input_ids": torch.tensor([row[0] for row, _ in wanted], device=device)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if wanted[0].row[1] is not None:
        inputs["token_type_ids"] = torch.tensor([row[1] for row, _ in wanted], device=device)
    embedded: list[Tensor] = []

    def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    handle = classifier.get_input_embeddings().register_forward_hook(keep)
    try:
        with torch.enable_grad():
            logits = classifier(**inputs).logits
            target = torch.tensor([label for _, label in wanted], device=device).unsqueeze(1)
            others = logits.scatter(1, target, -math.inf)
            odds = others.logsumexp(dim=1) - logits.gather(1, target).squeeze(1)
            (gradients,) = torch.autograd.grad(odds.sum(), embedded[0])
    finally:
        handle.remove()
    return [Slope(*row) for row in zip(logits.detach().float().cpu(), gradients.cpu(), strict=True)]
