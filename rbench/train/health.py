"""Measure the health of a training while it runs: a short series, and the flags that follow (docs/health.md).

Measuring changes nothing: the training draws the same random numbers and ends with the same weights as without it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from rbench.spec import Health, Measured
from rbench.train.health_flags import flags
from rbench.train.health_probe import untouched
from rbench.train.objectives import Objective, ProbedObjective

POINTS = 10
"""The most points of a series."""
EVERY = 30
"""Steps of a training for each point of its series, so that measuring a short one does not take long."""
TEXTS = 32
"""The most texts that are probed."""
STATE = "health.json"
"""The file with the series in the folder of a checkpoint."""


def due(steps: int) -> frozenset[int]:
    """Return the steps, from 1 to `steps`, that are measured: the first, the last, and others evenly between them."""
    count = min(POINTS, max(2, steps // EVERY))
    return frozenset(1 + round(i * (steps - 1) / (count - 1)) for i in range(count))


class Observer(transformers.TrainerCallback):  # type: ignore[misc]
    """Measure a training at some steps, each before the step changes the weights.

    Args:
        objective: the objective being trained.
        held_out: texts that are not trained on.
        texts: texts of the training. The first of them are probed too if too few are held out.
        batch_size: of the training. No more texts are probed, so that chance is that of a batch.
    """

    def __init__(self, objective: Objective, held_out: Sequence[str], texts: Sequence[str], batch_size: int) -> None:
        self._objective = objective
        self._parameters = [weight for weight in objective.kept.parameters() if weight.requires_grad]
        self._series: list[Measured] = []
        self._point: dict[str, float] | None = None
        self._steps = 0
        self._batch: dict[str, Any] | None = None
        if isinstance(objective, ProbedObjective):
            # Two texts that are the same would be each other's negatives.
            chosen = list(dict.fromkeys([*held_out, *texts]))[: min(TEXTS, batch_size)]
            self._of_held_out = float(len(set(chosen) & set(held_out)))
            self._batch = dict(objective.collate([objective.features(text) for text in chosen]))

    @property
    def health(self) -> Health:
        """Return the series so far, with its flags."""
        return Health(series=tuple(self._series), flags=flags(self._series, self._steps))

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Probe the model if the step that begins is due. The loss of its first batch completes the point."""
        self._steps = state.max_steps
        if state.global_step + 1 in due(state.max_steps):
            self._point = self._probed(state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Probe the model if the training stops early, with no step left to measure."""
        stopped = control.should_training_stop and state.global_step < state.max_steps
        if stopped and (not self._series or self._series[-1].step < state.global_step):
            self._append(state.global_step, self._probed(state.global_step))

    def _append(self, step: int, values: Mapping[str, float]) -> None:
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        if finite:
            self._series.append(Measured(step=step, values=finite))

    def _probed(self, step: int) -> dict[str, float]:
        if self._batch is None or not isinstance(self._objective, ProbedObjective):
            return {}
        model = self._objective.model
        device = next(model.parameters()).device
        batch = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in self._batch.items()}
        with untouched(model, step):
            values = self._objective.probe(batch)
        return {**values, "texts held out": self._of_held_out} if values else {}

    def see(self, step: int, outputs: Mapping[str, Tensor]) -> None:
        """Complete a point with the loss and its terms, of the first batch of step number `step` + 1.

        Args:
            outputs: what the objective's model returned, with their graph.
        """
        if self._point is None:
            return
        self._append(step + 1, {**self._point, **_terms(outputs, self._parameters)})
        self._point = None

    def write(self, folder: Path) -> None:
        """Write the series so far into the folder of a checkpoint."""
        series = [point.model_dump(mode="json") for point in self._series]
        (folder / STATE).write_text(json.dumps({"steps": self._steps, "series": series}) + "\n", encoding="utf-8")

    def read(self, folder: Path) -> None:
        """Restore what `write` put into the folder."""
        content = json.loads((folder / STATE).read_text(encoding="utf-8"))
        self._steps = content["steps"]
        self._series = [Measured.model_validate(point) for point in content["series"]]


def _terms(outputs: Mapping[str, Tensor], weights: Sequence[nn.Parameter]) -> dict[str, float]:
    """Return the values of `loss` and its terms by name, and under `NAME share` each term's share of the gradient.

    The share is the Euclidean norm of the term's gradient with respect to `weights`, divided by the sum of these norms
    over all terms. Outputs without a graph are no terms. A loss of one part has no shares.
    """
    means = {name: value.float().mean() for name, value in outputs.items()}
    parts = {name: value for name, value in means.items() if name != "loss" and value.requires_grad}
    norms = {name: _norm(value, weights) for name, value in parts.items()} if len(parts) > 1 else {}
    total = sum(norms.values())
    shares = {f"{name} share": norm / total for name, norm in norms.items()} if total > 0 else {}
    return {**{name: float(value.detach()) for name, value in means.items()}, **shares}


def _norm(part: Tensor, weights: Sequence[nn.Parameter]) -> float:
    gradients = torch.autograd.grad(part, list(weights), retain_graph=True, allow_unused=True)
    return math.hypot(*(float(g.detach().float().norm()) for g in gradients if g is not None), 0.0)
