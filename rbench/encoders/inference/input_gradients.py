"""Gradients at a network's token embeddings and at its answer, many texts in few forward and backward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rbench.encoders.inference.network import LENGTH_STEP, TokenRow, build_tensors, divide_into_batches
from rbench.errors import JobError

# Part of the key of every attack and measure that asks for gradients (config/versions.py): raising it runs them anew.
VERSION = 1

MAX_ROWS = {"cpu": 64, "cuda": 1024}
"""The most texts in one batch."""
MAX_TOKENS = {"cpu": 2048, "cuda": 1 << 14}
"""The most tokens in one batch: the backward pass keeps what every layer computed."""

DirectionOf = Callable[[Tensor, list[int]], Tensor]


class InputGradients(NamedTuple):
    """What one forward and one backward pass give for a text."""

    answer: Tensor
    """(dim,): what the network gives, on its device."""
    direction: Tensor
    """(dim,): gradient of the loss at the answer, on the network's device."""
    embeddings: Tensor
    """(tokens, width): gradient of the loss at the token embeddings, on the CPU."""


@dataclass(frozen=True)
class GradientNetwork:
    """A network that is asked for gradients. It batches rows as `Network` does.

    Without padding a row's gradients do not depend on what it is batched with where `module` is
    `rbench.encoders.inference.make_steady`. No parameter's `.grad` is written.

    Args:
        module, read: as `Network` takes them; `read(module, **inputs)` gives (n, dim).
        table: the token embedding layer of `module` itself, (n, tokens) -> (n, tokens, width).
        pad: token id and token type with which rows are padded.
        device: where `module` is.
        step: rows are padded to a multiple of so many tokens; None: not at all on a CPU, as `Network` on a GPU.
    """

    module: nn.Module
    read: Callable[..., Tensor]
    table: nn.Module
    device: torch.device
    pad: tuple[int, int] = (0, 0)
    step: int | None = None

    def __call__(self, rows: Sequence[TokenRow], direction: DirectionOf) -> list[InputGradients]:
        """Answers and gradients of `rows`, in their order.

        Args:
            rows: token ids of each text.
            direction: given answers (n, dim) without history and the places of their rows in `rows`, the gradient of
                each row's loss at its answer, (n, dim).

        Raises:
            JobError: one text alone does not fit into the GPU's memory.
        """
        kind = self.device.type
        by_place: dict[int, InputGradients] = {}
        for places in divide_into_batches(rows, MAX_ROWS[kind], MAX_TOKENS[kind], self.step or LENGTH_STEP[kind]):
            by_place.update(zip(places, self._whole(rows, places, direction), strict=True))
        return [by_place[place] for place in range(len(rows))]

    def _whole(self, rows: Sequence[TokenRow], places: list[int], direction: DirectionOf) -> list[InputGradients]:
        """The rows at these places as one batch, or as halves of it where the GPU's memory is full."""
        try:
            batch = self._batch([rows[i] for i in places], lambda answers: direction(answers, places))
        except torch.cuda.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if len(places) == 1:
                raise JobError(
                    f"the gradients of one text of {len(rows[places[0]][0])} tokens do not fit into the GPU's memory; "
                    "free it, lower `max_length`, or use --device cpu"
                ) from error
            half = len(places) // 2
            return self._whole(rows, places[:half], direction) + self._whole(rows, places[half:], direction)
        return [
            gradients._replace(embeddings=gradients.embeddings[: len(rows[place][0])])  # without padding
            for place, gradients in zip(places, batch, strict=True)
        ]

    def _batch(self, rows: Sequence[TokenRow], direction: Callable[[Tensor], Tensor]) -> list[InputGradients]:
        """One forward and one backward pass; the gradients of padding are not cut off yet."""
        embedded: list[Tensor] = []

        def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            # The embeddings become leaves of the graph, so that no gradient is computed for the table or below it.
            embedded.append(output.detach().requires_grad_())
            return embedded[-1]

        inputs = build_tensors(rows, self.pad, self.step or LENGTH_STEP[self.device.type], self.device)
        handle = self.table.register_forward_hook(keep)
        try:
            with torch.enable_grad():
                answers = self.read(self.module, **inputs)
        finally:
            handle.remove()
        directions = direction(answers.detach())
        # By the chain rule, this is the gradient of any loss whose gradient at the answers is `towards`.
        (gradients,) = torch.autograd.grad(answers, embedded[0], directions.to(answers.dtype))
        return [InputGradients(*row) for row in zip(answers.detach(), directions, gradients.cpu(), strict=True)]
