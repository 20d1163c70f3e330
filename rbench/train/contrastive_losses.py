"""Contrastive terms and divergences of distributions that objectives share.

They are computed without autocast: with a temperature of 0.05 the third digit of a cosine matters, and bf16 has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rbench.train.heads import full

VERSION = 1


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of each a_i (n, d) with each b_j (m, d): (n, m), -1..1."""
    with torch.autocast(a.device.type, enabled=False):
        return functional.normalize(full(a), dim=-1) @ functional.normalize(full(b), dim=-1).T


def similarities(z: Tensor, keys: Tensor, *, cosine: bool) -> Tensor:
    """The cosines of z (n, d) and keys (m, d), or else their dot products: (n, m)."""
    with torch.autocast(z.device.type, enabled=False):
        return cosines(z, keys) if cosine else full(z) @ keys.T.to(full(z).dtype)


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
    together = torch.stack([functional.cosine_similarity(full(z), full(p), dim=-1) for p in positives], dim=1)
    apart = cosines(z, others)
    own = torch.eye(len(z), dtype=torch.bool, device=z.device)
    together, apart = together / temperature, (apart / temperature).masked_fill(own, -math.inf)
    # -log p = logsumexp(all) - logsumexp(positives): no probability is computed that could round to 0.
    return torch.cat([together, apart], dim=1).logsumexp(1) - together.logsumexp(1)


def top_1(z: Tensor, keys: Tensor, positive_index: Tensor, *, cosine: bool = True) -> Tensor:
    """Say of each z_i whether its positive is nearer than every other key: (n,), bool. A tie counts as no.

    Args:
        z: (n, dim).
        keys: (m, dim).
        positive_index: (n,), the row of `keys` that is the positive of z_i.
        cosine: nearness is the cosine, or else the dot product.
    """
    scores = similarities(z, keys, cosine=cosine)
    own = scores.gather(1, positive_index.unsqueeze(1))
    others = scores.scatter(1, positive_index.unsqueeze(1), -math.inf)
    return own.squeeze(1) > others.amax(1)


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


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum(-1)


def _js(p: Tensor, q: Tensor) -> Tensor:
    m = torch.logaddexp(p, q) - math.log(2)
    return (_kl(p, m) + _kl(q, m)) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "js": _js,
    "kl": _kl,
    "symmetric-kl": lambda p, q: (_kl(p, q) + _kl(q, p)) / 2,
}
"""F(P, Q), (n,), of log-probabilities (n, m): V-advCSE (Ko 2024), equations 11 to 14. Equation 13 is Jensen-Shannon,
equation 14 its mixture M."""
