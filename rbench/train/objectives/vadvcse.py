"""V-advCSE (Ko 2024): SimCSE and a virtual adversarial loss (equations 7 to 10, Algorithm 1)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rbench.spec import EncoderSpec
from rbench.spec.words import Rate
from rbench.train.options import Contrastive, Norm, Size

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel

VERSION = 1


class Options(Contrastive):
    """Printed: Jensen-Shannon, the BatchNorm head (both by tables 4 and 5), K = 1, lambda 1e-6. Ours: the rest.

    F compares distributions and f gives vectors; how the one becomes the other is not said. With in-batch similarities
    no divergence exceeds a small number, so that at the printed lambda the term is of the order of 1e-6 of the loss.
    """

    divergence: Literal["js", "kl", "symmetric-kl", "l2", "linf"] = "js"
    """F, of f(x) and f(x + r): equations 11 to 14; `l2` (squared) and `linf` distances of probabilities are ours."""
    head: Literal["batchnorm", "mlp"] = "batchnorm"
    distribution: Literal["similarities", "dimensions"] = "similarities"
    """Softmax over a sentence's in-batch cosines to the positives h+, over tau; or over the vector's dimensions."""
    lam: Annotated[float, Field(ge=0)] = 1e-6
    """lambda, the weight of the virtual adversarial loss."""
    K: Annotated[int, Field(ge=1)] = 1
    """Steps of the ascent."""
    norm: Norm = "l2"
    """Norm of the ball, over all numbers of a sentence's r (ours; the paper names L2 and L-infinity)."""
    epsilon: Rate = 1.0
    """Radius of the ball (ours)."""
    eta: Size = 1.0
    """Step of the ascent (ours)."""
    sigma: Size = 0.01
    """r starts as N(0, sigma^2) (ours)."""
    direction: Literal["gradient", "unit"] = "unit"
    """A step is eta times the gradient as in Algorithm 1, or times the gradient over its norm as in the text; with eta
    not printed, the second is the one that a number can be chosen for."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """V-advCSE on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options), head=options.head)


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """Equation 10. Forward and backward passes: 3 + K, those of the ascent without the weights.

    The clean view serves both terms; in the second it is the constant virtual label of theta-hat.
    """
    import torch

    from rbench.train.contrast import DIVERGENCES, info_nce
    from rbench.train.perturb import fgm, project_sentence

    X, words = model.embed(batch), batch.words
    _, z, z_plus = model.twice(X, batch.mask)
    contrastive = info_nce(z, [z_plus], z_plus, options.temperature)
    F = DIVERGENCES[options.divergence]
    start, label = X.detach(), log_p(options, z, z_plus).detach()

    r = project_sentence(torch.randn_like(start) * options.sigma * words, options.epsilon, options.norm)
    for _ in range(options.K):
        r.requires_grad_()
        # The sum: a mean would make a sentence's gradient depend on the size of the batch.
        away = F(label, log_p(options, model.z(start + r * words, batch.mask), z_plus.detach())).sum()
        g = torch.autograd.grad(away, r)[0]
        step = options.eta * g if options.direction == "gradient" else fgm(g, options.eta, options.norm)
        r = project_sentence(r.detach() + step, options.epsilon, options.norm)
    virtual = options.lam * F(label, log_p(options, model.z(X + r, batch.mask), z_plus)).mean()
    return {"loss": contrastive + virtual, "contrastive": contrastive, "virtual": virtual}


def log_p(options: Options, z: Tensor, keys: Tensor) -> Tensor:
    """log p(y | x): (batch, batch) over in-batch sentences, or (batch, dim) over dimensions."""
    from rbench.train.contrast import cosines

    if options.distribution == "dimensions":
        return z.float().log_softmax(-1) if z.dtype.itemsize < 4 else z.log_softmax(-1)
    return (cosines(z, keys) / options.temperature).log_softmax(-1)
