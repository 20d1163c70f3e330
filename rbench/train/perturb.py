"""Perturb word embeddings: norms and balls, sentence-level ascents, token-level perturbations.

Words are the tokens that are neither padding nor special. `words` is their mask (batch, length, 1) of 0 and 1. Every
perturbation is zero outside of it. The norm of a sentence-level perturbation is over all numbers of a sentence (`over:
token`: of one token). The norm of a token-level perturbation is over the numbers of one token. Source: RobustSentEmbed
(Asl et al. 2024), section 3.1 and Algorithm 1; where options name its authors' public code, github.com/jasl1/
RobustSentEmbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, distributed, nn

from rbench.train.options import Norm, Scaling, SentenceLevelOptions

VERSION = 1

LossAt = Callable[[Tensor], Tensor]
"""Maps a perturbation (batch, length, D) of the batch's word embeddings to the loss, a scalar."""
_NORM_ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": math.inf}
_FIXED_POINT_SCALE = 2.0**36


# ------------------------------------------------------------------------------------------------ norms and balls


def size(x: Tensor, norm: Norm) -> Tensor:
    """Return the norms over the last dimension, which is kept with size 1."""
    sizes: Tensor = torch.linalg.vector_norm(x, _NORM_ORDER[norm], dim=-1, keepdim=True)
    return sizes


def unit(x: Tensor, norm: Norm) -> Tensor:
    """Return `x` divided by its norm over the last dimension. Zero vectors stay zero."""
    sizes = size(x, norm)
    return torch.where(sizes > 0, x / sizes, torch.zeros_like(x))


def project(x: Tensor, epsilon: float, norm: Norm) -> Tensor:
    """Project `x` on the ball of radius `epsilon` around 0, over the last dimension, in Euclidean distance."""
    if norm == "linf":
        return x.clamp(-epsilon, epsilon)
    if norm == "l1":  # soft-threshold at the level at which the norm is epsilon (Duchi et al. 2008, figure 1)
        descending = x.abs().sort(dim=-1, descending=True).values
        excess = descending.cumsum(-1) - epsilon
        rank = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        # The condition holds for a prefix of the sorted numbers, so counting gives its last rank.
        num_kept = (descending * rank > excess).sum(-1, keepdim=True).clamp(min=1)
        level = excess.gather(-1, num_kept - 1) / num_kept
        shrunk = x.sign() * (x.abs() - level.clamp(min=0)).clamp(min=0)
        x = torch.where(size(x, "l1") > epsilon, shrunk, x)
    # For L1 this removes the excess that rounding left.
    return x * (epsilon / size(x, norm).clamp(min=epsilon))


def _map_sentences(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply `f`, which works on the last dimension, to all numbers of each sentence."""
    return f(x.flatten(1)).view_as(x)


def _map_chosen(options: SentenceLevelOptions, f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply `f`, which works on the last dimension, to the numbers that `options.over` names."""
    return f(x) if options.over == "token" else _map_sentences(f, x)


# ------------------------------------------------------------------------------------------------- sentence level


def fgm(gradient: Tensor, epsilon: float, norm: Norm = "l2") -> Tensor:
    """Return a step (batch, length, D) of length epsilon along the gradient (Miyato et al. 2017, equation 5)."""
    return epsilon * _map_sentences(lambda g: unit(g, norm), gradient)


def project_sentence(x: Tensor, epsilon: float, norm: Norm) -> Tensor:
    """Project each sentence's perturbation (batch, length, D) on the ball of radius epsilon."""
    return _map_sentences(lambda row: project(row, epsilon, norm), x)


def ascend(
    options: SentenceLevelOptions, like: Tensor, words: Tensor, loss_at: LossAt, tokens: TokenPerturbation | None = None
) -> Tensor:
    """Return delta_f (batch, length, D) of equation 7 for word embeddings `like`: T-step FGSM mixed with K-step PGD.

    It computes max(K, T) gradients; with `tracks: separate`, max(K, T) for each track. The gradients are taken at
    delta + eta, where eta is that of `tokens`. Each gradient also moves eta one step, so it ends as eta^max(K, T). The
    result and eta are constants to autograd.
    """

    def ball(x: Tensor) -> Tensor:
        return _map_chosen(options, lambda row: project(row, options.epsilon, options.norm), x)

    def direction(gradient: Tensor) -> Tensor:
        return _map_chosen(options, lambda row: unit(row, options.norm), gradient)

    start = _draw_start(options, like, words)
    pgd = fgsm = mixed = ball(start) if options.start == "uniform" else start
    # One gradient at the mixture serves both tracks if they are joint; else each track has its own point.
    joint, project_steps = options.tracks == "joint", options.projected == "steps"
    for t in range(1, max(options.K, options.T) + 1):
        step_from = [mixed, mixed] if joint else [pgd, fgsm]
        gradients, for_eta = _compute_gradients(loss_at, step_from[:1] if joint else step_from, words, tokens)
        if t <= options.K:
            pgd = step_from[0] + options.alpha * direction(gradients[0])
            pgd = ball(pgd) if project_steps else pgd
        if t <= options.T:
            fgsm = step_from[1] + options.beta * gradients[-1].sign()
            fgsm = ball(fgsm) if project_steps else fgsm
        mixed = options.rho * pgd + (1 - options.rho) * fgsm
        # Balls are convex, so a mixture of two projected points needs no projection of its own.
        mixed = mixed if project_steps else ball(mixed)
        if tokens is not None and for_eta is not None:
            tokens.step(for_eta)
    return mixed * words


def _draw_start(options: SentenceLevelOptions, like: Tensor, words: Tensor) -> Tensor:
    """Draw the start of delta: (batch, length, D), or (batch, 1, D) where all tokens share it."""
    rows = torch.empty_like(like if options.delta == "matrix" else like[:, :1])
    if options.start == "normal":
        start = rows.normal_(0, 1) * options.sigma
    else:
        start = rows.uniform_(-options.sigma, options.sigma) / math.sqrt(like.shape[-1])
    return (start * words if options.delta == "matrix" else start).detach()


def _compute_gradients(
    loss_at: LossAt, points: Sequence[Tensor], words: Tensor, tokens: TokenPerturbation | None
) -> tuple[list[Tensor], Tensor | None]:
    """Return the gradient at each delta of `points` and, with `tokens`, the gradient at eta, summed over the points.

    All of them come from one backward pass.
    """
    deltas = [point.detach().requires_grad_() for point in points]
    eta = None if tokens is None else tokens.eta.detach().requires_grad_()
    with torch.enable_grad():
        loss = sum((loss_at(d * words if eta is None else d * words + eta) for d in deltas), torch.zeros(()).to(words))
    leaves = deltas if eta is None else [*deltas, eta]
    gradients = list(torch.autograd.grad(loss, leaves))
    return gradients[: len(deltas)], None if eta is None else gradients[-1]


# ---------------------------------------------------------------------------------------------------- token level


class TokenPerturbation:
    """The token-level perturbation eta (batch, length, D) during its ascent (RobustSentEmbed, equations 2 to 4).

    Two misprints are corrected: equation 4 prints eta^t for eta^(t+1), Algorithm 1 prints eta_(i-1) for eta_i^(t-1).

    Args:
        eta: the start; it is set to zero outside `words`.
        words: mask (batch, length, 1) of 0 and 1.
        gamma: step size.
        epsilon: radius of each token's ball; None: eta is not projected.
        norm: norm of the ball, of the step and of the scaling index.
        scaling: the vector whose norms scale in equation 2: the `gradient` (the sentence before the equation), eta
            (`perturbation`, as the equation has it), or eta after the step (`stepped`, the public code).
    """

    def __init__(
        self, eta: Tensor, words: Tensor, *, gamma: float, epsilon: float | None, norm: Norm, scaling: Scaling
    ) -> None:
        self._gamma, self._epsilon, self._norm, self._scaling, self._words = gamma, epsilon, norm, scaling, words
        self.eta = self._project(eta.detach() * words)

    def _project(self, eta: Tensor) -> Tensor:
        return eta if self._epsilon is None else project(eta, self._epsilon, self._norm)

    def step(self, gradient: Tensor) -> None:
        """Move eta one step along `gradient`, the gradient of the loss with respect to eta."""
        # Special tokens are masked first, because the scaling divides by the largest size in the sentence.
        gradient = gradient * self._words
        stepped = self.eta + self._gamma * unit(gradient, self._norm)
        scaled_by = {"perturbation": self.eta, "gradient": gradient, "stepped": stepped}[self._scaling]
        sizes = size(scaled_by, self._norm)
        largest = sizes.amax(dim=1, keepdim=True)  # of each sentence; if it is 0, all of its tokens have the index 1
        index = torch.where(largest > 0, sizes / largest, torch.ones_like(sizes))  # n_i of equation 2
        self.eta = self._project(index * stepped) * self._words


class TokenTable(nn.Module):
    """V of Algorithm 1: a perturbation for each token of the vocabulary, kept between training steps.

    V is a buffer, so that checkpoints contain it. It starts as U(-sigma, sigma) / sqrt(D).

    Args:
        vocabulary, dim: V has a row of `dim` numbers for each of the `vocabulary` tokens.
        sigma: size of the start.
        kept: V[w] becomes the `mean` of eta over the places of w, or the `sum` over them is added to it. With sums,
            what is looked up is divided by one L2 norm, over all numbers of the batch's words.
    """

    V: Tensor

    def __init__(self, vocabulary: int, dim: int, sigma: float, kept: Literal["mean", "sum"] = "mean") -> None:
        super().__init__()
        self._kept = kept
        self.register_buffer("V", torch.empty(vocabulary, dim).uniform_(-sigma, sigma) / math.sqrt(dim))

    def look_up(self, ids: Tensor, words: Tensor) -> Tensor:
        """Return eta^0 (batch, length, D) for token ids (batch, length); zero where `words` (batch, length, 1) is."""
        rows = self.V[ids] * words.to(self.V.dtype)
        return rows if self._kept == "mean" else unit(rows.flatten(), "l2").view_as(rows)

    @torch.no_grad()
    def store(self, ids: Tensor, words: Tensor, eta: Tensor) -> None:
        """Put into V[w] what eta is at the places of w among the words of the batch. Other rows stay.

        Values are rounded to multiples of 2^-36 and summed as integers. The sum is then the same for any order of the
        batch and of a GPU's threads. Several processes add their sums, so that all keep the same table.
        """
        is_word = words.squeeze(-1) > 0
        tokens, row_of_token = torch.unique(ids[is_word], return_inverse=True)
        sums = torch.zeros(len(tokens), eta.shape[-1], dtype=torch.int64, device=eta.device)
        sums.index_add_(0, row_of_token, (eta[is_word].double() * _FIXED_POINT_SCALE).round().long())
        counts = torch.zeros(len(tokens), dtype=torch.int64, device=eta.device)
        counts.index_add_(0, row_of_token, torch.ones_like(row_of_token))
        if distributed.is_available() and distributed.is_initialized():
            of_all_processes = torch.zeros(len(self.V), sums.shape[-1] + 1, dtype=torch.int64, device=sums.device)
            of_all_processes[tokens] = torch.cat([sums, counts.unsqueeze(-1)], dim=1)
            distributed.all_reduce(of_all_processes)
            tokens = of_all_processes[:, -1].nonzero().squeeze(-1)  # by any process
            sums, counts = of_all_processes[tokens, :-1], of_all_processes[tokens, -1]
        if self._kept == "mean":
            self.V[tokens] = (sums.double() / (counts.unsqueeze(-1) * _FIXED_POINT_SCALE)).to(self.V.dtype)
        else:
            self.V[tokens] += (sums.double() / _FIXED_POINT_SCALE).to(self.V.dtype)
