"""Perturbations of word embeddings that objectives share.

Words are the tokens that are neither padding nor special; every perturbation is zero elsewhere. `words` is a mask
(batch, length, 1) of 0 and 1. A sentence-level perturbation has its norm over all numbers of a sentence, a token-level
one over those of a token. Sources: RobustSentEmbed (Asl et al. 2024), section 3.1 and Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, distributed, nn

from rbench.train.options import Norm, SentenceLevel

VERSION = 1

LossAt = Callable[[Tensor], Tensor]
"""The loss (a scalar) of the batch under a perturbation (batch, length, D) of its word embeddings."""
_ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": math.inf}
_FIXED_POINT = 2.0**36


# ------------------------------------------------------------------------------------------------ norms and balls


def size(x: Tensor, norm: Norm) -> Tensor:
    """Norms over the last dimension, which stays as 1."""
    sizes: Tensor = torch.linalg.vector_norm(x, _ORDER[norm], dim=-1, keepdim=True)
    return sizes


def unit(x: Tensor, norm: Norm) -> Tensor:
    """`x` over its norms; zero where x is."""
    sizes = size(x, norm)
    return torch.where(sizes > 0, x / sizes, torch.zeros_like(x))


def project(x: Tensor, epsilon: float, norm: Norm) -> Tensor:
    """The nearest point, in the Euclidean sense, of the ball of radius `epsilon` around 0, over the last dimension."""
    if norm == "linf":
        return x.clamp(-epsilon, epsilon)
    if norm == "l1":
        x = _towards_l1(x, epsilon)
    # For L1 this takes away what rounding left outside.
    return x * (epsilon / size(x, norm).clamp(min=epsilon))


def _towards_l1(x: Tensor, epsilon: float) -> Tensor:
    """Soft thresholding at the level that makes the L1 norm epsilon (Duchi et al. 2008, figure 1)."""
    falling = x.abs().sort(dim=-1, descending=True).values
    over = falling.cumsum(-1) - epsilon
    rank = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    last = (falling * rank > over).sum(-1, keepdim=True).clamp(min=1)
    level = over.gather(-1, last - 1) / last
    shrunk = x.sign() * (x.abs() - level.clamp(min=0)).clamp(min=0)
    return torch.where(size(x, "l1") > epsilon, shrunk, x)


def _a_sentence(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`f`, which works on the last dimension, over all numbers of each sentence."""
    return f(x.flatten(1)).view_as(x)


# ------------------------------------------------------------------------------------------------- sentence level


def fgm(gradient: Tensor, epsilon: float, norm: Norm = "l2") -> Tensor:
    """One step of length epsilon along the gradient (Miyato et al. 2017, equation 5): (batch, length, D)."""
    return epsilon * _a_sentence(lambda g: unit(g, norm), gradient)


def project_sentence(x: Tensor, epsilon: float, norm: Norm) -> Tensor:
    """Each sentence's perturbation (batch, length, D) projected on the ball of radius epsilon."""
    return _a_sentence(lambda row: project(row, epsilon, norm), x)


def ascend(
    options: SentenceLevel, like: Tensor, words: Tensor, loss_at: LossAt, tokens: TokenLevel | None = None
) -> Tensor:
    """delta_f (batch, length, D) of equation 7 for word embeddings `like`: T-step FGSM mixed with K-step PGD.

    max(K, T) gradients are taken (with `tracks` separate, one for each track). `tokens` moves along: its eta is added
    to delta where the gradients are taken, and ends as eta^max(K, T). Both are constants to autograd afterwards.
    """
    rows = like if options.delta == "matrix" else like[:, :1]
    start = torch.empty_like(rows).uniform_(-options.sigma, options.sigma) / math.sqrt(like.shape[-1])
    if options.delta == "matrix":
        start = start * words
    start = project_sentence(start.detach(), options.epsilon, options.norm)
    joint = options.tracks == "joint"
    pgd = fgsm = mixed = start
    for t in range(1, max(options.K, options.T) + 1):
        points = [mixed, mixed] if joint else [pgd, fgsm]
        gradients, for_eta = _gradients(loss_at, points[:1] if joint else points, words, tokens)
        if t <= options.K:
            step = options.alpha * _a_sentence(lambda g: unit(g, options.norm), gradients[0])
            pgd = project_sentence(points[0] + step, options.epsilon, options.norm)
        if t <= options.T:
            fgsm = project_sentence(points[1] + options.beta * gradients[-1].sign(), options.epsilon, options.norm)
        mixed = options.rho * pgd + (1 - options.rho) * fgsm
        if tokens is not None and for_eta is not None:
            tokens.step(for_eta)
    return mixed * words


def _gradients(
    loss_at: LossAt, points: Sequence[Tensor], words: Tensor, tokens: TokenLevel | None
) -> tuple[list[Tensor], Tensor | None]:
    """Gradients at each delta of `points` and, where there are tokens, at eta (summed over points); one backward."""
    deltas = [point.detach().requires_grad_() for point in points]
    eta = None if tokens is None else tokens.eta.detach().requires_grad_()
    with torch.enable_grad():
        loss = sum((loss_at(d * words if eta is None else d * words + eta) for d in deltas), torch.zeros(()).to(words))
    leaves = deltas if eta is None else [*deltas, eta]
    found = list(torch.autograd.grad(loss, leaves))
    return found[: len(deltas)], None if eta is None else found[-1]


# ---------------------------------------------------------------------------------------------------- token level


class TokenLevel:
    """Token-level perturbation eta (batch, length, D) while it ascends (RobustSentEmbed, equations 2 to 4).

    Equation 4 projects eta^t where eta^(t+1) is meant, and Algorithm 1's eta_(i-1) is a slip for eta_i^(t-1).

    Args:
        eta: where it starts; made zero outside `words`.
        gamma: length of a step.
        scaling: what equation 2 scales by: `perturbation` as printed, `gradient` as the text around it says.
    """

    def __init__(
        self, eta: Tensor, words: Tensor, *, gamma: float, epsilon: float, norm: Norm, scaling: str = "perturbation"
    ) -> None:
        self._gamma, self._epsilon, self._norm, self._scaling, self._words = gamma, epsilon, norm, scaling, words
        self.eta = project(eta.detach() * words, epsilon, norm)

    def step(self, gradient: Tensor) -> None:
        """One step up `gradient`, the gradient of the loss with respect to eta."""
        gradient = gradient * self._words
        n = scaling_index(self.eta if self._scaling == "perturbation" else gradient, self._norm)
        eta = n * (self.eta + self._gamma * unit(gradient, self._norm))
        self.eta = project(eta, self._epsilon, self._norm) * self._words


def scaling_index(x: Tensor, norm: Norm) -> Tensor:
    """n_i of equation 2, (batch, length, 1): each token's norm over the largest of its sentence; 1 where all are 0."""
    sizes = size(x, norm)
    largest = sizes.amax(dim=1, keepdim=True)
    return torch.where(largest > 0, sizes / largest, torch.ones_like(sizes))


class TokenTable(nn.Module):
    """V of Algorithm 1: a perturbation for each word of the vocabulary, kept between training steps.

    A buffer, so checkpoints hold it. Starts as U(-sigma, sigma) / sqrt(D).
    """

    V: Tensor

    def __init__(self, vocabulary: int, dim: int, sigma: float) -> None:
        super().__init__()
        self.register_buffer("V", torch.empty(vocabulary, dim).uniform_(-sigma, sigma) / math.sqrt(dim))

    def look_up(self, ids: Tensor) -> Tensor:
        """eta^0 (batch, length, D)."""
        return self.V[ids]

    @torch.no_grad()
    def store(self, ids: Tensor, words: Tensor, eta: Tensor) -> None:
        """V[w] becomes the mean of eta over the places of w among the words of the batch; other rows stay.

        Sums are of whole numbers (multiples of 2^-36), which no order of addition changes: neither that of the batch
        nor that in which a GPU's threads arrive. Several processes add up theirs and keep one table.
        """
        chosen = words.squeeze(-1) > 0
        seen, places = torch.unique(ids[chosen], return_inverse=True)
        sums = torch.zeros(len(seen), eta.shape[-1], dtype=torch.int64, device=eta.device)
        sums.index_add_(0, places, (eta[chosen].double() * _FIXED_POINT).round().long())
        counts = torch.zeros(len(seen), dtype=torch.int64, device=eta.device)
        counts.index_add_(0, places, torch.ones_like(places))
        if distributed.is_available() and distributed.is_initialized():
            seen, sums, counts = _of_all_processes(len(self.V), seen, sums, counts)
        self.V[seen] = (sums.double() / (counts.unsqueeze(-1) * _FIXED_POINT)).to(self.V.dtype)


def _of_all_processes(rows: int, seen: Tensor, sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row numbers, sums and counts of what any process has seen, out of a table of so many rows."""
    everywhere = torch.zeros(rows, sums.shape[-1] + 1, dtype=torch.int64, device=sums.device)
    everywhere[seen] = torch.cat([sums, counts.unsqueeze(-1)], dim=1)
    distributed.all_reduce(everywhere)
    seen = everywhere[:, -1].nonzero().squeeze(-1)
    return seen, everywhere[seen, :-1], everywhere[seen, -1]
