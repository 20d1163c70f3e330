"""The contrastive loss and divergences as they are printed, one number at a time."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor


def cosine(u: Tensor, v: Tensor) -> float:
    a, b = u.detach().numpy(), v.detach().numpy()
    return float(a @ b / math.sqrt(a @ a) / math.sqrt(b @ b))


def slow_info_nce(z: Tensor, positives: list[Tensor], others: Tensor, tau: float) -> float:
    """Equation 9 of `contrastive_losses.info_nce`, sentence by sentence."""
    total = 0.0
    for i in range(len(z)):
        above = sum(math.exp(cosine(z[i], p[i]) / tau) for p in positives)
        negatives = sum(math.exp(cosine(z[i], others[j]) / tau) for j in range(len(z)) if j != i)
        total += -math.log(above / (above + negatives))
    return total / len(z)


def kl_divergence(p: np.ndarray, q: np.ndarray) -> float:
    return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))


SLOW_DIVERGENCES = {
    "kl": kl_divergence,
    "symmetric-kl": lambda p, q: (kl_divergence(p, q) + kl_divergence(q, p)) / 2,
    "js": lambda p, q: kl_divergence(p, (p + q) / 2) / 2 + kl_divergence(q, (p + q) / 2) / 2,
}
