"""Measure the health of a training while it runs: a short series, and the flags that follow (docs/health.md).

Measuring changes nothing: the training draws the same random numbers and ends with the same weights as without it. The
values of a contrastive training are ours: what it still has to learn of a few texts, and what its perturbation does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from rbench.schema import Flag, Health, Measured, Raised
from rbench.score.statistics import Sample, wilson
from rbench.train.contrastive_losses import top_1
from rbench.train.objectives import Objective, ProbedObjective

POINTS = 10
"""The most points of a series."""
EVERY = 30
"""Steps of a training for each point of its series, so that measuring a short one does not take long."""
TEXTS = 32
"""The most texts that are probed."""
ENOUGH = 16
"""Fewer texts do not show that a training is saturated."""
STATE = "health.json"
"""The file with the series in the folder of a checkpoint."""
NOTHING = 1e-6
"""A token's perturbation is dead if it is shorter than this share of the token's embedding. That is 8 rounding errors
of single precision (2^-23 each), so that the sum of the two is the embedding itself but for rounding."""
_ONE, _OTHER = 1, 2

Values = dict[str, float]
"""Measurements by name."""
Vectors = Callable[[Tensor], Tensor]
"""Maps word embeddings or vectors of the batch, (n, ...), to vectors (n, dim)."""


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


# --------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class Adversary:
    """A perturbation of word embeddings, as an objective made it."""

    X: Tensor
    """The word embeddings without it, (n, length, D)."""
    delta: Tensor
    """(n, length, D)."""
    loss: Callable[[Tensor], Tensor] | None
    """Maps the vectors z (n, dim) of the perturbed view to the loss of each sentence, (n,), that delta was made to
    raise. None: not known."""


@dataclass
class Seen:
    """What an objective showed while it computed its loss. None: it has no such thing."""

    views: tuple[Tensor, Tensor] | None = None
    """z and z+ of the batch, (n, dim) each, after the head."""
    adversary: Adversary | None = None
    eta: tuple[Tensor, Tensor] | None = None
    """Word embeddings and the token-level perturbation, (n, length, D) each."""


@contextmanager
def untouched(model: nn.Module, seed: int) -> Iterator[None]:
    """Seed torch's generators. Afterwards restore them, and the buffers and modes of `model`.

    Buffers are the statistics of batch normalisation, queues and tables of perturbations. Parameters and their
    gradients are not restored: what runs inside must leave them alone.
    """
    kept = [
        (part, name, buffer, buffer.clone())
        for part in model.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    used = {x.device.index for x in model.parameters() if x.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(index or 0 for index in used)), _same_modes(model):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            for part, name, buffer, content in kept:
                buffer.data.copy_(content)
                # The buffer itself is restored as well as its content, because a part may have assigned a new tensor.
                part._buffers[name] = buffer


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put all parts of `model` into eval mode, and back into the modes that they had."""
    with _same_modes(model):
        model.eval()
        yield


@contextmanager
def _same_modes(model: nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in model.modules()}
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@torch.no_grad()
def of_views(losses: Tensor, z: Tensor, keys: Tensor, positive_index: Tensor, *, cosine: bool = True) -> Values:
    """Return how well each text's positive is told from the other keys, and what chance would give.

    Args:
        losses: the contrastive loss of each text, (n,): -log of the probability of its positive among the keys.
        z, keys, positive_index, cosine: as for `top_1`.

    Returns:
        `texts`: n. `contrastive loss`: the mean loss, in nats. `error`: the mean probability of the other keys, 0..1.
        `top-1`: the share of texts whose positive is the nearest key, 0..1. `loss at chance` and `top-1 at chance`:
        their values if all keys were equally near.
    """
    return {
        "texts": float(len(z)),
        "contrastive loss": float(losses.mean()),
        "loss at chance": math.log(len(keys)),
        "error": float((1 - (-losses.double()).exp()).mean()),
        "top-1": float(top_1(z, keys, positive_index, cosine=cosine).double().mean()),
        "top-1 at chance": 1 / len(keys),
    }


@torch.no_grad()
def of_adversary(model: nn.Module, adversary: Adversary, words: Tensor, f: Vectors, head: Vectors) -> Values:
    """Return how far a perturbation moves the sentence vectors and how much it raises the loss.

    Args:
        model: the module whose modes decide about dropout.
        words: mask (n, length, 1) of 0 and 1.
        f: maps word embeddings to vectors h, (n, dim).
        head: maps h to z.

    Returns:
        `delta ratio`: the mean over words of |delta| / |x|. `adversarial cosine`: of clean and perturbed h, without
        dropout. `dropout cosine`: of the h of two dropout masks. With a known loss also, in the loss's unit, `rise` and
        `random rise`: the mean increase by delta and by a random perturbation as long at each word, under the same
        dropout masks. `least rise above random`: the lower end of the 95% interval (Student's t, paired by sentences)
        of their difference. `dropout change`: the mean absolute change of a sentence's loss between two dropout masks.
    """
    X, delta, loss = adversary.X, adversary.delta, adversary.loss
    chosen, sizes = words.squeeze(-1) > 0, delta.norm(dim=-1)
    random = functional.normalize(torch.randn_like(delta) * words, dim=-1) * sizes.unsqueeze(-1)
    with evaluating(model):
        moved = functional.cosine_similarity(f(X), f(X + delta), dim=-1)

    def at(point: Tensor, masks: int) -> tuple[Tensor, Tensor]:
        # The same seed gives the same dropout masks, so that losses differ by the perturbation alone.
        torch.manual_seed(masks)
        h = f(point)
        return h, loss(head(h)).double() if loss is not None else h.new_zeros(())

    (h, clean), (h_other, other) = at(X, _ONE), at(X, _OTHER)
    values = {
        "delta ratio": float((sizes / X.norm(dim=-1))[chosen].mean()),
        "adversarial cosine": float(moved.mean()),
        "dropout cosine": float(functional.cosine_similarity(h, h_other, dim=-1).mean()),
    }
    if loss is None:
        return values
    by_delta, by_random = at(X + delta, _ONE)[1] - clean, at(X + random, _ONE)[1] - clean
    interval = Sample.of((by_delta - by_random).flatten().tolist()).interval()
    return {
        **values,
        "rise": float(by_delta.mean()),
        "random rise": float(by_random.mean()),
        "dropout change": float((other - clean).abs().mean()),
        **({"least rise above random": interval[0]} if interval is not None else {}),
    }


@torch.no_grad()
def of_tokens(X: Tensor, eta: Tensor, words: Tensor) -> Values:
    """Return `dead words`: the share of words whose token-level perturbation is nothing beside the word, 0..1.

    Args:
        X, eta: (n, length, D).
        words: mask (n, length, 1) of 0 and 1.
    """
    chosen = words.squeeze(-1) > 0
    dead = eta.norm(dim=-1)[chosen] <= NOTHING * X.norm(dim=-1)[chosen]
    return {"dead words": float(dead.double().mean())}


# ---------------------------------------------------------------------------------------------------------- flags


def flags(series: Sequence[Measured], steps: int) -> tuple[Raised, ...]:
    """Return the flags of a training of `steps` steps. A value that is not in the series raises no flag."""
    checks: dict[Flag, Callable[[Sequence[Measured], int], str | None]] = {
        "saturated": _saturated,
        "no adversary": _no_adversary,
        "head did not learn": _head_did_not_learn,
        "perturbation dead": _perturbation_dead,
    }
    said = {flag: check(series, steps) for flag, check in checks.items()}
    return tuple(Raised(flag=flag, because=because) for flag, because in said.items() if because is not None)


def _with(series: Sequence[Measured], *names: str) -> list[Measured]:
    """The points of the series that have all of these values."""
    return [point for point in series if all(name in point.values for name in names)]


def _at(point: Measured, steps: int) -> str:
    return f"at step {point.step} of {steps}"


def _saturated(series: Sequence[Measured], steps: int) -> str | None:
    """All texts together have less error than one that is wholly wrong, at the first point and at most points."""

    def at_its_floor(point: Measured) -> bool:
        n = point.values["texts"]
        return n >= ENOUGH and n * point.values["error"] < 1

    points = _with(series, "texts", "error", "contrastive loss", "loss at chance")
    floored = [point for point in points if at_its_floor(point)]
    if not points or not at_its_floor(points[0]) or 2 * len(floored) <= len(points):
        return None
    first, last = points[0].values, points[-1].values
    later = f" and {_number(last['contrastive loss'])} {_at(points[-1], steps)}" if len(points) > 1 else ""
    return (
        f"contrastive loss {_number(first['contrastive loss'])} {_at(points[0], steps)}{later}, "
        f"where chance is {first['loss at chance']:.2f}"
    )


def _no_adversary(series: Sequence[Measured], steps: int) -> str | None:
    """At most points delta does no more than a random perturbation of its size, or no more than dropout."""
    points = _with(series, "adversarial cosine", "dropout cosine")
    found = [(point, said) for point in points if (said := _idle(point.values)) is not None]
    if 2 * len(found) <= len(points):
        return None
    point, said = found[-1]
    return f"{said} {_at(point, steps)}"


def _idle(values: dict[str, float]) -> str | None:
    """Say why delta is no adversary at one point; None if it is one."""
    rise, control, noise = (values.get(name) for name in ("rise", "random rise", "dropout change"))
    if rise is not None and control is not None:
        least = values.get("least rise above random", rise - control)
        if least <= 0:
            surely = f", whose difference may be {_number(least)} (95% interval)" if rise > control else ""
            return (
                f"delta raises the loss by {_number(rise)} and a random perturbation of its size by {_number(control)}"
                f"{surely}"
            )
    near = values["adversarial cosine"] >= values["dropout cosine"]
    small = rise is None or noise is None or rise <= noise
    if not (near and small):
        return None
    said = (
        f"clean and adversarial vectors have cosine {values['adversarial cosine']:.4f} (two dropout views "
        f"{values['dropout cosine']:.4f})"
    )
    if rise is not None and noise is not None:
        said += f" and delta raises the loss by {_number(rise)} (another dropout mask changes it by {_number(noise)})"
    return said


def _head_did_not_learn(series: Sequence[Measured], steps: int) -> str | None:
    """At the last point the 95% interval of top-1 includes chance."""
    points = _with(series, "texts", "top-1", "top-1 at chance")
    if not points:
        return None
    values = points[-1].values
    n, share, chance = values["texts"], values["top-1"], values["top-1 at chance"]
    interval = wilson(share * n, n)
    if interval is None or interval[0] > chance:
        return None
    return (
        f"top-1 {share:.3f} (95% interval {interval[0]:.3f} to {interval[1]:.3f}, n = {n:.0f}) "
        f"{_at(points[-1], steps)}, where chance is {_number(chance)}"
    )


def _perturbation_dead(series: Sequence[Measured], steps: int) -> str | None:
    """At the last point most words have no token-level perturbation."""
    points = _with(series, "dead words")
    if not points or points[-1].values["dead words"] <= 0.5:
        return None
    return f"{points[-1].values['dead words']:.0%} of the words have none {_at(points[-1], steps)}"


def _number(value: float) -> str:
    """Write a number with two or three digits that count, and without an exponent if it is a millionth or more."""
    return f"{value:.7f}".rstrip("0") if 1e-6 <= abs(value) < 1e-4 else f"{value:.3g}"
