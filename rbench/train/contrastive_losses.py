"""Contrastive terms and divergences of distributions that objectives share.

They are computed without autocast: with a temperature of 0.05 the third digit of a cosine matters, and bf16 has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rbench.train.heads import as_single_precision

VERSION = 1


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of each a_i (n, d) with each b_j (m, d): (n, m), -1..1."""
    with torch.autocast(a.device.type, enabled=False):
        return (
            functional.normalize(as_single_precision(a), dim=-1)
            @ functional.normalize(as_single_precision(b), dim=-1).T
        )


def similarities(z: Tensor, keys: Tensor, *, cosine: bool) -> Tensor:
    """The cosines of z (n, d) and keys (m, d), or else their dot products: (n, m)."""
    with torch.autocast(z.device.type, enabled=False):
        return cosines(z, keys) if cosine else as_single_precision(z) @ keys.T.to(as_single_precision(z).dtype)


def info_nce(z: Tensor, positives: Sequence[Tensor], others: Tensor, temperature: float) -> Tensor:
    """The mean of `info_nce_each` over i."""
    return info_nce_each(z, positives, others, temperature).mean()


def info_nce_each(z: Tensor, positives: Sequence[Tensor], others: Tensor, temperature: float) -> Tensor:
    """L_con(z_i, z_i^pos, z_i^neg), (n,) (RobustSentEmbed, equation 9); with one positive, SimCSE's loss.

    Args:
        z: (n, d) vectors.
        positives: one (n, d) for each member of the positive set; row i belongs to z_i. Their terms are summed inside
            the logarithm.
        others: (n, d); row j is a negative of each z_i with i != j.
        temperature: tau, above 0.
    """
    positive_scores = torch.stack(
        [functional.cosine_similarity(as_single_precision(z), as_single_precision(p), dim=-1) for p in positives], dim=1
    )
    negative_scores = cosines(z, others)
    diagonal = torch.eye(len(z), dtype=torch.bool, device=z.device)
    # `others` are the views of all sentences: on the diagonal stands the sentence itself, which is no negative.
    positive_scores, negative_scores = (
        positive_scores / temperature,
        (negative_scores / temperature).masked_fill(diagonal, -math.inf),
    )
    # -log p = logsumexp(all) - logsumexp(positives): no probability is computed that could round to 0.
    return torch.cat([positive_scores, negative_scores], dim=1).logsumexp(1) - positive_scores.logsumexp(1)


def find_top_1(z: Tensor, keys: Tensor, positive_index: Tensor, *, cosine: bool = True) -> Tensor:
    """Say of each z_i whether its positive is nearer than every other key: (n,), bool. A tie counts as no.

    Args:
        z: (n, dim).
        keys: (m, dim).
        positive_index: (n,), the row of `keys` that is the positive of z_i.
        cosine: nearness is the cosine, or else the dot product.
    """
    scores = similarities(z, keys, cosine=cosine)
    positive_scores = scores.gather(1, positive_index.unsqueeze(1))
    other_scores = scores.scatter(1, positive_index.unsqueeze(1), -math.inf)
    # Strictly greater: collapsed vectors, which are all alike, must not count as hits.
    return positive_scores.squeeze(1) > other_scores.amax(1)


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """NT-Xent (Chen et al. 2020, equation 1): the mean over 2n views, each against its partner and 2n - 2 others.

    Args:
        a, b: (n, d) each; a_i and b_i are the two views of one sentence.
        temperature: tau, above 0.
    """
    views = torch.cat([a, b])
    n = len(a)
    scores = cosines(views, views) / temperature
    scores = scores.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=scores.device), -math.inf)
    # Rows are a_1..a_n, b_1..b_n, so the partner of row i is row i + n (modulo 2n).
    partner = torch.arange(2 * n, device=scores.device).roll(n)
    return functional.cross_entropy(scores, partner)


def uniformity(x: Tensor) -> Tensor:
    """log of the mean over pairs of exp(-2 |x - y|^2), for x (n, d) scaled to length 1 (Wang and Isola 2020, 4.1.2)."""
    return (-2 * torch.pdist(functional.normalize(x, dim=-1)).square()).exp().mean().log()


# ---------------------------------------------------------------------------------------------------- divergences


def _kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum(-1)


def _js_divergence(p: Tensor, q: Tensor) -> Tensor:
    # p and q are log-probabilities, so the mean of the two is a logaddexp.
    m = torch.logaddexp(p, q) - math.log(2)
    return (_kl_divergence(p, m) + _kl_divergence(q, m)) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "js": _js_divergence,
    "kl": _kl_divergence,
    "symmetric-kl": lambda p, q: (_kl_divergence(p, q) + _kl_divergence(q, p)) / 2,
}
"""F(P, Q), (n,), of log-probabilities (n, m): V-advCSE (Ko 2024), equations 11 to 14. Equation 13 is Jensen-Shannon,
equation 14 its mixture M."""
