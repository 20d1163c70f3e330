"""V-advCSE (Ko 2024): SimCSE with a virtual adversarial loss (equations 7 to 10, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rbench.schema.common import Positive, Rate
from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import Contrastive, Norm, NotNegative

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.train.contrastive import Batch, Losses, SentenceModel

VERSION = 1


class Options(Contrastive):
    """The paper prints Jensen-Shannon and the BatchNorm head (both in tables 4 and 5), K = 1 and lambda = 1e-6.

    The rest is ours. F compares distributions, but f gives vectors, and the paper does not say how vectors become
    distributions. The paper explains its small lambda: its contrastive loss is 100 times smaller than its virtual one
    (section 5, effect of lambda). Here the two are 3.5 and 0.5 at the first step on mini-bert (64 sentences), 0.0001
    and 0.05 on minilm-mlm (16 sentences). With lambda 1e-6 the second term hardly counts in either case.
    """

    divergence: Literal["js", "kl", "symmetric-kl"] = "js"
    """F, which compares f(x) and f(x + r): Kullback-Leibler, its symmetric form, or Jensen-Shannon (equations 11, 12,
    and 13 with 14)."""
    head: Literal["batchnorm", "mlp"] = "batchnorm"
    """The head in training: `BatchNormHead` or `MLPHead`."""
    distribution: Literal["similarities", "dimensions"] = "similarities"
    """Softmax over a sentence's in-batch cosines to the positives h+, divided by tau, or over the vector's numbers."""
    lam: NotNegative = 1e-6
    """lambda, the weight of the virtual adversarial loss."""
    K: Positive = 1
    """Number of steps of the ascent."""
    norm: Norm = "l2"
    """Norm of the ball and of a `unit` step, over all numbers of a sentence's r. Section 3 names L2 and L-infinity and
    says that both were tried; it prints neither results nor the choice, so the default is ours."""
    epsilon: Rate = 1.0
    """Radius of the ball (ours)."""
    eta: NotNegative = 1.0
    """Step size of the ascent (ours)."""
    sigma: NotNegative = 0.01
    """r starts as N(0, sigma^2) (ours)."""
    direction: Literal["gradient", "unit"] = "unit"
    """A step is eta times the gradient, as in Algorithm 1, or eta times the gradient over its norm, as in the text. The
    default is the latter, because eta is not printed and is easier to choose for it."""


class VadvcseTraining(ContrastiveTraining[Options]):
    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return equation 10.

        Cost: 3 + K forward and 3 + K backward passes; the K of the ascent compute no gradients of weights. The clean
        view serves both terms. In the second it is the virtual label by theta-hat, a constant.
        """
        import torch

        from rbench.train.contrastive_losses import DIVERGENCES, info_nce
        from rbench.train.perturb import fgm, project_sentence

        X, words = model.embed(batch), batch.words
        _, z, z_plus = model.twice(X, batch.mask)
        contrastive = info_nce(z, [z_plus], z_plus, options.temperature)
        F = DIVERGENCES[options.divergence]
        start, label = X.detach(), log_probabilities(options, z, z_plus).detach()

        # Not from 0: there the distributions differ by dropout alone, so that the gradient of F is nearly 0.
        r = project_sentence(torch.randn_like(start) * options.sigma * words, options.epsilon, options.norm)
        for _ in range(options.K):
            r.requires_grad_()
            # A mean instead of the sum would make a sentence's gradient depend on the size of the batch.
            divergence = F(
                label, log_probabilities(options, model.z(start + r * words, batch.mask), z_plus.detach())
            ).sum()
            g = torch.autograd.grad(divergence, r)[0]
            step = options.eta * g if options.direction == "gradient" else fgm(g, options.eta, options.norm)
            r = project_sentence(r.detach() + step, options.epsilon, options.norm)
        X_adv = model.perturbed(X, r, lambda z: F(label, log_probabilities(options, z, z_plus.detach())))
        virtual = options.lam * F(label, log_probabilities(options, model.z(X_adv, batch.mask), z_plus)).mean()
        return {"loss": contrastive + virtual, "contrastive": contrastive, "virtual": virtual}


def log_probabilities(options: Options, z: Tensor, keys: Tensor) -> Tensor:
    """Return log p(y | x): (batch, batch) over in-batch sentences, or (batch, dim) over dimensions."""
    from rbench.train.contrastive_losses import cosines

    if options.distribution == "dimensions":
        return z.float().log_softmax(-1) if z.dtype.itemsize < 4 else z.log_softmax(-1)
    return (cosines(z, keys) / options.temperature).log_softmax(-1)
