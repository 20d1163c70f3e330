"""Measure on a few texts what a contrastive training still has to learn, and what its perturbation does.

docs/health.md defines the values, which are ours. Nothing here changes a model, or the random numbers of its training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rbench.score.statistics import Sample
from rbench.train.contrastive_losses import top_1

NOTHING = 1e-6
"""A token's perturbation is dead if it is shorter than this share of the token's embedding. That is 8 rounding errors
of single precision (2^-23 each), so that the sum of the two is the embedding itself but for rounding."""
_ONE, _OTHER = 1, 2

Values = dict[str, float]
"""Measurements by name."""
Vectors = Callable[[Tensor], Tensor]
"""Maps word embeddings or vectors of the batch, (n, ...), to vectors (n, dim)."""


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
    modes = {part: part.training for part in model.modules()}
    used = {x.device.index for x in model.parameters() if x.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(index or 0 for index in used)):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            for part, name, buffer, content in kept:
                buffer.data.copy_(content)
                part._buffers[name] = buffer
            _set_modes(modes)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put all parts of `model` into eval mode, and back into the modes that they had."""
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        _set_modes(modes)


def _set_modes(modes: dict[nn.Module, bool]) -> None:
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
