"""The Trainer of FreeLB: each batch several times, its word embeddings moved uphill in between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

from rbench.finetune.freelb import Options

VERSION = 1


@dataclass
class Rise:
    """By how much the ascent has raised the loss: the sum over the batches of one epoch, and their number."""

    epoch: int = -1
    total: float = 0.0
    batches: int = 0

    def add(self, epoch: int, rise: float) -> None:
        """Count one batch; a new epoch starts anew."""
        if epoch != self.epoch:
            self.epoch, self.total, self.batches = epoch, 0.0, 0
        self.total += rise
        self.batches += 1

    @property
    def mean(self) -> float:
        """A batch's rise, on average; 0 before there is one."""
        return self.total / max(1, self.batches)

    def text(self) -> str:
        """The same for whoever watches."""
        return f"loss raised by {self.mean:.3f}" if self.batches else ""


class Ascending(transformers.Trainer):  # type: ignore[misc]
    """Each batch is read `adv_steps` times; what the parameters get is the mean of the gradients."""

    def __init__(self, *, options: Options, rise: Rise, **given: Any) -> None:
        self.options, self.rise = options, rise
        super().__init__(**given)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """One step on `inputs`; returns the mean loss of its readings. Gradients must be zero before."""
        inputs = self._prepare_inputs(inputs)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        rest = {name: value for name, value in inputs.items() if name != "input_ids"}
        embed = self.model.get_input_embeddings()
        delta = first(embed(ids).detach(), mask, self.options)
        chance = _chance()
        losses: list[Tensor] = []
        for step in range(self.options.adv_steps):
            if step:
                _set_chance(chance)  # the same dropout masks
                assert delta.grad is not None
                delta = uphill(delta.detach(), delta.grad, mask, self.options)
            delta.requires_grad_()
            # The embeddings are looked up anew: each reading needs a graph of its own.
            embeddings = {"inputs_embeds": embed(ids) + delta}
            losses.append(super().training_step(model, rest | embeddings, num_items_in_batch))
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= len(losses)
        self.rise.add(math.floor(self.state.epoch or 0), float(losses[-1] - losses[0]))
        return torch.stack(losses).mean()


def first(embeddings: Tensor, mask: Tensor, options: Options) -> Tensor:
    """The perturbation (batch, length, D) that a batch begins with; `mask` (batch, length) is 0 on padding.

    Draws from torch's global generator, unless there is nothing to draw.
    """
    delta = torch.zeros_like(embeddings)
    if not options.adv_init_mag:
        return delta
    size = torch.full_like(delta[:, :1, :1], options.adv_init_mag)
    if options.norm_type == "l2":
        size = size / (mask.sum(dim=1).view(-1, 1, 1) * embeddings.shape[-1]).sqrt()
    return projected(delta.uniform_(-1, 1) * size * mask.unsqueeze(-1), options)


def uphill(delta: Tensor, gradient: Tensor, mask: Tensor, options: Options) -> Tensor:
    """`delta` after a step of length `adv_lr` along the gradient of each example, within the ball."""
    direction = gradient / _norm(gradient, options).clamp(min=1e-8)  # as in the authors' code
    return projected(delta + options.adv_lr * direction * mask.unsqueeze(-1), options)


def projected(delta: Tensor, options: Options) -> Tensor:
    """The nearest point in the ball of radius `adv_max_norm`, example by example."""
    most = options.adv_max_norm
    if most is None:
        return delta
    if options.norm_type == "linf":
        return delta.clamp(-most, most)
    return delta * (most / _norm(delta, options).clamp(min=most))


def _norm(x: Tensor, options: Options) -> Tensor:
    """Norms (batch, 1, 1) over all numbers of an example."""
    order = 2 if options.norm_type == "l2" else math.inf
    norms: Tensor = torch.linalg.vector_norm(x.flatten(1), order, dim=1).view(-1, 1, 1)
    return norms


def _chance() -> tuple[Tensor, list[Tensor]]:
    """The state of torch's generators, of which dropout draws."""
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []


def _set_chance(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])
