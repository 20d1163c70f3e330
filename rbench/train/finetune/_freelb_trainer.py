"""The Trainer of FreeLB. It reads each batch several times and moves the word embeddings uphill between readings.

All of it follows Algorithm 1 of Zhu et al. 2020 and the authors' code (see `rbench.train.finetune.freelb`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

from rbench.train.finetune._options import FreeLBOptions
from rbench.train.perturb import project_sentence, size

VERSION = 1


@dataclass
class AscentStats:
    """How much the ascent raised the loss of the batches of one epoch: the sum, and the number of batches."""

    epoch: int = -1
    total: float = 0.0
    batches: int = 0

    def add(self, epoch: int, rise: float) -> None:
        """Count one batch. The first one of a new epoch discards the previous epoch."""
        if epoch != self.epoch:
            self.epoch, self.total, self.batches = epoch, 0.0, 0
        self.total += rise
        self.batches += 1

    @property
    def mean(self) -> float:
        """The mean rise of a batch; 0 before the first one."""
        return self.total / max(1, self.batches)

    def text(self) -> str:
        """The mean as text for the progress; empty before the first batch."""
        return f"loss raised by {self.mean:.3f}" if self.batches else ""


class FreeLBTrainer(transformers.Trainer):  # type: ignore[misc]
    """Reads each batch `adv_steps` times and takes the mean of the gradients.

    Args:
        options: steps, step length, ball.
        rise: is told of each batch how much the loss rose from the first reading to the last.
        given: the arguments of transformers' Trainer.
    """

    def __init__(self, *, options: FreeLBOptions, rise: AscentStats, **given: Any) -> None:
        self.options, self.rise = options, rise
        super().__init__(**given)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Add the gradients of one batch and return its mean loss over the readings. Gradients must be zero before."""
        inputs = self._prepare_inputs(inputs)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        other_inputs = {name: value for name, value in inputs.items() if name != "input_ids"}
        embed = self.model.get_input_embeddings()
        delta = draw_start(embed(ids).detach(), mask, self.options)
        losses: list[Tensor] = []
        last, gpus = self.options.adv_steps - 1, range(torch.cuda.device_count())
        for step in range(last + 1):
            if step:
                assert delta.grad is not None
                delta = ascent_step(delta.detach(), delta.grad, mask, self.options)
            delta.requires_grad_()
            # The embeddings are looked up anew: each reading needs a graph of its own.
            embeddings = {"inputs_embeds": embed(ids) + delta}
            with torch.random.fork_rng(gpus, enabled=step < last):  # all readings have the same dropout masks
                losses.append(super().training_step(model, other_inputs | embeddings, num_items_in_batch))
        # The gradients of all readings were added up; Algorithm 1 takes their mean.
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= len(losses)
        self.rise.add(math.floor(self.state.epoch or 0), float(losses[-1] - losses[0]))
        return torch.stack(losses).mean()


def draw_start(embeddings: Tensor, mask: Tensor, options: FreeLBOptions) -> Tensor:
    """The perturbation of the first reading, shaped as `embeddings` (batch, length, D).

    `mask` (batch, length) is 0 on padding and 1 elsewhere. The noise comes from torch's global generator, which is not
    touched where `adv_init_mag` is 0.
    """
    delta = torch.zeros_like(embeddings)
    if not options.adv_init_mag:
        return delta
    bound = torch.full_like(delta[:, :1, :1], options.adv_init_mag)
    if options.norm_type == "l2":
        # The bound is divided by sqrt(L * D), so that the length of the noise does not grow with the text.
        bound = bound / (mask.sum(dim=1).view(-1, 1, 1) * embeddings.shape[-1]).sqrt()
    return project_delta(delta.uniform_(-1, 1) * bound * mask.unsqueeze(-1), options)


def ascent_step(delta: Tensor, gradient: Tensor, mask: Tensor, options: FreeLBOptions) -> Tensor:
    """`delta` after a step of length `adv_lr` along each example's gradient, projected into the ball."""
    lengths = size(gradient.flatten(1), options.norm_type).unsqueeze(-1)  # (batch, 1, 1)
    direction = gradient / lengths.clamp(min=1e-8)  # 1e-8 as in the authors' code
    return project_delta(delta + options.adv_lr * direction * mask.unsqueeze(-1), options)


def project_delta(delta: Tensor, options: FreeLBOptions) -> Tensor:
    """For each example the point of the ball of radius `adv_max_norm` that is nearest to its `delta`."""
    radius = options.adv_max_norm
    return delta if radius is None else project_sentence(delta, radius, options.norm_type)
