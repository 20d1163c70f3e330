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

from rbench.schema import Flag, Health, MeasuredStep, RaisedFlag
from rbench.score.statistics import Sample, wilson
from rbench.train.contrastive_losses import find_top_1
from rbench.train.objectives._trained import Objective, ProbedObjective

MAX_POINTS = 10
"""The most points of a series."""
STEPS_PER_POINT = 30
"""Steps of a training for each point of its series, so that measuring a short one does not take long."""
MAX_PROBED = 32
"""The most texts that are probed."""
MIN_SATURATED_TEXTS = 16
"""Fewer texts do not show that a training is saturated."""
HEALTH_FILE = "health.json"
"""The file with the series in the folder of a checkpoint."""
DEAD_BELOW = 1e-6
"""A token's perturbation is dead if it is shorter than this share of the token's embedding. That is 8 rounding errors
of single precision (2^-23 each), so that the sum of the two is the embedding itself but for rounding."""
_FIRST_SEED, _SECOND_SEED = 1, 2

ValuesByName = dict[str, float]
"""Measurements by name."""
VectorsOf = Callable[[Tensor], Tensor]
"""Maps word embeddings or vectors of the batch, (n, ...), to vectors (n, dim)."""


def due(steps: int) -> frozenset[int]:
    """Return the steps, from 1 to `steps`, that are measured: the first, the last, and others evenly between them."""
    count = min(MAX_POINTS, max(2, steps // STEPS_PER_POINT))
    return frozenset(1 + round(i * (steps - 1) / (count - 1)) for i in range(count))


class HealthObserver(transformers.TrainerCallback):  # type: ignore[misc]
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
        self._series: list[MeasuredStep] = []
        self._point: dict[str, float] | None = None
        self._steps = 0
        self._batch: dict[str, Any] | None = None
        if isinstance(objective, ProbedObjective):
            # Two texts that are the same would be each other's negatives.
            probed = list(dict.fromkeys([*held_out, *texts]))[: min(MAX_PROBED, batch_size)]
            self._of_held_out = float(len(set(probed) & set(held_out)))
            self._batch = dict(objective.collate([objective.features(text) for text in probed]))

    @property
    def health(self) -> Health:
        """Return the series so far, with its flags."""
        return Health(series=tuple(self._series), flags=raise_flags(self._series, self._steps))

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Probe the model if the step that begins is due. The loss of its first batch completes the point."""
        self._steps = state.max_steps
        if state.global_step + 1 in due(state.max_steps):
            self._point = self._probe(state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Probe the model if the training stops early, with no step left to measure."""
        stopped = control.should_training_stop and state.global_step < state.max_steps
        if stopped and (not self._series or self._series[-1].step < state.global_step):
            self._append(state.global_step, self._probe(state.global_step))

    def _append(self, step: int, values: Mapping[str, float]) -> None:
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        if finite:
            self._series.append(MeasuredStep(step=step, values=finite))

    def _probe(self, step: int) -> dict[str, float]:
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
        self._append(step + 1, {**self._point, **_measure_terms(outputs, self._parameters)})
        self._point = None

    def write(self, folder: Path) -> None:
        """Write the series so far into the folder of a checkpoint."""
        series = [point.model_dump(mode="json") for point in self._series]
        (folder / HEALTH_FILE).write_text(json.dumps({"steps": self._steps, "series": series}) + "\n", encoding="utf-8")

    def read(self, folder: Path) -> None:
        """Restore what `write` put into the folder."""
        content = json.loads((folder / HEALTH_FILE).read_text(encoding="utf-8"))
        self._steps = content["steps"]
        self._series = [MeasuredStep.model_validate(point) for point in content["series"]]


def _measure_terms(outputs: Mapping[str, Tensor], weights: Sequence[nn.Parameter]) -> dict[str, float]:
    """Return the values of `loss` and its terms by name, and under `NAME share` each term's share of the gradient.

    The share is the Euclidean norm of the term's gradient with respect to `weights`, divided by the sum of these norms
    over all terms. Outputs without a graph are no terms. A loss of one part has no shares.
    """
    means = {name: value.float().mean() for name, value in outputs.items()}
    terms = {name: value for name, value in means.items() if name != "loss" and value.requires_grad}
    norms = {name: _gradient_norm(value, weights) for name, value in terms.items()} if len(terms) > 1 else {}
    total = sum(norms.values())
    shares = {f"{name} share": norm / total for name, norm in norms.items()} if total > 0 else {}
    return {**{name: float(value.detach()) for name, value in means.items()}, **shares}


def _gradient_norm(part: Tensor, weights: Sequence[nn.Parameter]) -> float:
    gradients = torch.autograd.grad(part, list(weights), retain_graph=True, allow_unused=True)
    return math.hypot(*(float(g.detach().float().norm()) for g in gradients if g is not None), 0.0)


# --------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class AdversarialView:
    """A perturbation of word embeddings, as an objective made it."""

    X: Tensor
    """The word embeddings without it, (n, length, D)."""
    delta: Tensor
    """(n, length, D)."""
    loss: Callable[[Tensor], Tensor] | None
    """Maps the vectors z (n, dim) of the perturbed view to the loss of each sentence, (n,), that delta was made to
    raise. None: not known."""


@dataclass
class ObservedStep:
    """What an objective showed while it computed its loss. None: it has no such thing."""

    views: tuple[Tensor, Tensor] | None = None
    """z and z+ of the batch, (n, dim) each, after the head."""
    adversary: AdversarialView | None = None
    eta: tuple[Tensor, Tensor] | None = None
    """Word embeddings and the token-level perturbation, (n, length, D) each."""


@contextmanager
def untouched(model: nn.Module, seed: int) -> Iterator[None]:
    """Seed torch's generators. Afterwards restore them, and the buffers and modes of `model`.

    Buffers are the statistics of batch normalisation, queues and tables of perturbations. Parameters and their
    gradients are not restored: what runs inside must leave them alone.
    """
    buffers = [
        (part, name, buffer, buffer.clone())
        for part in model.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    gpus = {x.device.index for x in model.parameters() if x.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(index or 0 for index in gpus)), _same_modes(model):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            for part, name, buffer, content in buffers:
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
def measure_views(
    losses: Tensor, z: Tensor, keys: Tensor, positive_index: Tensor, *, cosine: bool = True
) -> ValuesByName:
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
        "top-1": float(find_top_1(z, keys, positive_index, cosine=cosine).double().mean()),
        "top-1 at chance": 1 / len(keys),
    }


@torch.no_grad()
def measure_adversary(
    model: nn.Module, adversary: AdversarialView, words: Tensor, f: VectorsOf, head: VectorsOf
) -> ValuesByName:
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
    is_word, lengths = words.squeeze(-1) > 0, delta.norm(dim=-1)
    random = functional.normalize(torch.randn_like(delta) * words, dim=-1) * lengths.unsqueeze(-1)
    # Without dropout: otherwise the cosine would show the dropout masks, beside which delta is often small.
    with evaluating(model):
        cosines = functional.cosine_similarity(f(X), f(X + delta), dim=-1)

    def encode_at(point: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """The vectors at `point` and the loss of each, under the dropout masks of `seed`."""
        # The same seed gives the same dropout masks, so that losses differ by the perturbation alone.
        torch.manual_seed(seed)
        h = f(point)
        return h, loss(head(h)).double() if loss is not None else h.new_zeros(())

    (h, clean), (h_other, other) = encode_at(X, _FIRST_SEED), encode_at(X, _SECOND_SEED)
    values = {
        "delta ratio": float((lengths / X.norm(dim=-1))[is_word].mean()),
        "adversarial cosine": float(cosines.mean()),
        "dropout cosine": float(functional.cosine_similarity(h, h_other, dim=-1).mean()),
    }
    if loss is None:
        return values
    by_delta = encode_at(X + delta, _FIRST_SEED)[1] - clean
    by_random = encode_at(X + random, _FIRST_SEED)[1] - clean
    # The interval is paired by sentence: rises differ far more between sentences than by what raises them.
    interval = Sample.of((by_delta - by_random).flatten().tolist()).interval()
    return {
        **values,
        "rise": float(by_delta.mean()),
        "random rise": float(by_random.mean()),
        "dropout change": float((other - clean).abs().mean()),
        **({"least rise above random": interval[0]} if interval is not None else {}),
    }


@torch.no_grad()
def measure_tokens(X: Tensor, eta: Tensor, words: Tensor) -> ValuesByName:
    """Return `dead words`: the share of words whose token-level perturbation is nothing beside the word, 0..1.

    Args:
        X, eta: (n, length, D).
        words: mask (n, length, 1) of 0 and 1.
    """
    is_word = words.squeeze(-1) > 0
    dead = eta.norm(dim=-1)[is_word] <= DEAD_BELOW * X.norm(dim=-1)[is_word]
    return {"dead words": float(dead.double().mean())}


# ---------------------------------------------------------------------------------------------------------- flags


def raise_flags(series: Sequence[MeasuredStep], steps: int) -> tuple[RaisedFlag, ...]:
    """Return the flags of a training of `steps` steps. A value that is not in the series raises no flag."""
    checks: dict[Flag, Callable[[Sequence[MeasuredStep], int], str | None]] = {
        "saturated": _find_saturated,
        "no adversary": _find_no_adversary,
        "head did not learn": _find_no_learning,
        "perturbation dead": _find_dead_perturbation,
    }
    reasons = {flag: check(series, steps) for flag, check in checks.items()}
    return tuple(RaisedFlag(flag=flag, because=because) for flag, because in reasons.items() if because is not None)


def _points_with(series: Sequence[MeasuredStep], *names: str) -> list[MeasuredStep]:
    """The points of the series that have all of these values."""
    return [point for point in series if all(name in point.values for name in names)]


def _describe_step(point: MeasuredStep, steps: int) -> str:
    return f"at step {point.step} of {steps}"


def _find_saturated(series: Sequence[MeasuredStep], steps: int) -> str | None:
    """All texts together have less error than one that is wholly wrong, at the first point and at most points."""

    def at_its_floor(point: MeasuredStep) -> bool:
        n = point.values["texts"]
        # The mean error times n is the number of texts that are wholly wrong: below one, nothing is left to learn.
        return n >= MIN_SATURATED_TEXTS and n * point.values["error"] < 1

    points = _points_with(series, "texts", "error", "contrastive loss", "loss at chance")
    floored = [point for point in points if at_its_floor(point)]
    if not points or not at_its_floor(points[0]) or 2 * len(floored) <= len(points):
        return None
    first, last = points[0].values, points[-1].values
    later = (
        f" and {_format_number(last['contrastive loss'])} {_describe_step(points[-1], steps)}"
        if len(points) > 1
        else ""
    )
    return (
        f"contrastive loss {_format_number(first['contrastive loss'])} {_describe_step(points[0], steps)}{later}, "
        f"where chance is {first['loss at chance']:.2f}"
    )


def _find_no_adversary(series: Sequence[MeasuredStep], steps: int) -> str | None:
    """At most points delta does no more than a random perturbation of its size, or no more than dropout."""
    points = _points_with(series, "adversarial cosine", "dropout cosine")
    idle: list[tuple[MeasuredStep, str]] = []
    for point in points:
        reason = _why_no_adversary(point.values)
        if reason is not None:
            idle.append((point, reason))
    if 2 * len(idle) <= len(points):
        return None
    point, reason = idle[-1]
    return f"{reason} {_describe_step(point, steps)}"


def _why_no_adversary(values: dict[str, float]) -> str | None:
    """Say why delta is no adversary at one point; None if it is one."""
    rise, control, noise = (values.get(name) for name in ("rise", "random rise", "dropout change"))
    if rise is not None and control is not None:
        least = values.get("least rise above random", rise - control)
        if least <= 0:
            interval_text = (
                f", whose difference may be {_format_number(least)} (95% interval)" if rise > control else ""
            )
            return (
                f"delta raises the loss by {_format_number(rise)} and a random perturbation of its size by "
                f"{_format_number(control)}{interval_text}"
            )
    no_further = values["adversarial cosine"] >= values["dropout cosine"]
    within_noise = rise is None or noise is None or rise <= noise
    if not (no_further and within_noise):
        return None
    reason = (
        f"clean and adversarial vectors have cosine {values['adversarial cosine']:.4f} (two dropout views "
        f"{values['dropout cosine']:.4f})"
    )
    if rise is not None and noise is not None:
        reason += (
            f" and delta raises the loss by {_format_number(rise)} (another dropout mask changes it by "
            f"{_format_number(noise)})"
        )
    return reason


def _find_no_learning(series: Sequence[MeasuredStep], steps: int) -> str | None:
    """At the last point the 95% interval of top-1 includes chance."""
    points = _points_with(series, "texts", "top-1", "top-1 at chance")
    if not points:
        return None
    values = points[-1].values
    n, share, chance = values["texts"], values["top-1"], values["top-1 at chance"]
    interval = wilson(share * n, n)
    if interval is None or interval[0] > chance:
        return None
    return (
        f"top-1 {share:.3f} (95% interval {interval[0]:.3f} to {interval[1]:.3f}, n = {n:.0f}) "
        f"{_describe_step(points[-1], steps)}, where chance is {_format_number(chance)}"
    )


def _find_dead_perturbation(series: Sequence[MeasuredStep], steps: int) -> str | None:
    """At the last point most words have no token-level perturbation."""
    points = _points_with(series, "dead words")
    if not points or points[-1].values["dead words"] <= 0.5:
        return None
    return f"{points[-1].values['dead words']:.0%} of the words have none {_describe_step(points[-1], steps)}"


def _format_number(value: float) -> str:
    """Write a number with two or three digits that count, and without an exponent if it is a millionth or more."""
    return f"{value:.7f}".rstrip("0") if 1e-6 <= abs(value) < 1e-4 else f"{value:.3g}"
