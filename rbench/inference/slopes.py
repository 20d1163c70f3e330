"""Gradients at a network's token embeddings and at its answer, many texts in few forward and backward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rbench.errors import JobError
from rbench.inference.network import STEP, Row, batches, tensors

VERSION = 1

MAX_ROWS = {"cpu": 64, "cuda": 1024}
MAX_TOKENS = {"cpu": 2048, "cuda": 1 << 14}
"""Tokens in one batch: the backward pass keeps what every layer computed."""


class Slope(NamedTuple):
    """What one forward and one backward pass say of a text."""

    answer: Tensor
    """(dim,): what the network gives, on its device."""
    direction: Tensor
    """(dim,): gradient of the loss at the answer, on the network's device."""
    embeddings: Tensor
    """(tokens, width): gradient of the loss at the token embeddings, on the CPU."""


def slopes(
    module: nn.Module,
    read: Callable[..., Tensor],
    table: nn.Module,
    rows: Sequence[Row],
    direction: Callable[[Tensor, list[int]], Tensor],
    *,
    pad: tuple[int, int] = (0, 0),
    device: torch.device,
    step: int | None = None,
) -> list[Slope]:
    """Answers and gradients for `rows`, batched as `Network` does it: without padding on a CPU unless `step` says so.

    Without padding a row's gradients do not depend on what it is batched with where `module` is
    `rbench.inference.steady`. No parameter's `.grad` is written.

    Args:
        module, read: as `Network` takes them; `read(module, **inputs)` gives (n, dim).
        table: the module's token embedding layer, (n, tokens) -> (n, tokens, width).
        direction: given answers (n, dim) without history and the places of their rows in `rows`, the gradient of each
            row's loss at its answer, (n, dim).

    Raises:
        JobError: one text alone does not fit into the GPU's memory.
    """
    found: list[Slope | None] = [None] * len(rows)
    step = step or STEP[device.type]

    def fill(places: list[int]) -> None:
        inputs = tensors([rows[i] for i in places], pad, step, device)
        try:
            slopes = _batch(module, read, table, inputs, lambda answers: direction(answers, places))
        except torch.cuda.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if len(places) == 1:
                raise JobError(
                    f"the gradients of one text of {len(rows[places[0]][0])} tokens do not fit into the GPU's memory; "
                    "free it, lower `max_length`, or use --device cpu"
                ) from error
            fill(places[: len(places) // 2])
            fill(places[len(places) // 2 :])
            return
        for place, slope in zip(places, slopes, strict=True):
            found[place] = slope._replace(embeddings=slope.embeddings[: len(rows[place][0])])

    for places in batches(rows, MAX_ROWS[device.type], MAX_TOKENS[device.type], step):
        fill(places)
    return [slope for slope in found if slope is not None]


def _batch(
    module: nn.Module,
    read: Callable[..., Tensor],
    table: nn.Module,
    inputs: dict[str, Tensor],
    direction: Callable[[Tensor], Tensor],
) -> list[Slope]:
    embedded: list[Tensor] = []

    def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    handle = table.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            answers = read(module, **inputs)
    finally:
        handle.remove()
    towards = direction(answers.detach())
    (gradients,) = torch.autograd.grad(answers, embedded[0], towards.to(answers.dtype))
    return [Slope(*row) for row in zip(answers.detach(), towards, gradients.cpu(), strict=True)]
