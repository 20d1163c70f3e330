"""Define a Glow-like normalising flow over sentence vectors (BERT-flow, Li et al. 2020, section 3) with normflows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rbench.encoders.locate import flow_missing
from rbench.encoders.transform import Transform
from rbench.errors import ResourceError

VERSION = 1


class Flow(Transform):
    """Maps sentence vectors u to Gaussian vectors z = f^-1(u), where u = f(z) (Li et al. 2020, section 3.2).

    The layout is that of Glow (Kingma and Dhariwal 2018). Each level has steps of activation normalisation, permutation
    and coupling. After each level but the last, the second half of the dimensions goes to z unchanged.

    Glow has affine couplings and learned 1x1 convolutions. As in the released code of BERT-flow (bohanli/BERT-flow,
    flow/glow_ops_1x1.py and flow/config), couplings are additive and permutations are fixed. Here permutations are
    random; the released code reverses the order of the dimensions. In both, the network in a coupling has two hidden
    layers with ReLU. The released code also has activation normalisation in these layers; here they have none.

    Args:
        width: length of the vectors and of z; at least 2 ** levels.
        levels: number of levels.
        depth: number of steps in a level.
        hidden: width of the hidden layers of a coupling. The paper does not print `levels`, `depth` and `hidden`.

    Raises:
        ResourceError: normflows is not installed, or `width` is below 2 ** levels.
    """

    KIND = "flow"

    def __init__(self, width: int, levels: int, depth: int, hidden: int) -> None:
        super().__init__()
        if lacking := flow_missing():
            raise ResourceError(lacking)
        import normflows as nf

        if width < 2**levels:
            raise ResourceError(f"vectors of {width} numbers cannot be halved in {levels} levels; take fewer levels")
        self.width = self.dim = width
        self._shape = {"width": width, "levels": levels, "depth": depth, "hidden": hidden}
        steps: list[list[Any]] = []
        sizes: list[int] = []
        for _ in range(levels):
            steps.append([part for _ in range(depth) for part in _step(width, hidden)])
            sizes.append(width // 2)
            width -= width // 2
        sizes[-1] += width  # the last level is not halved
        # normflows counts levels from z, and within a level from z too.
        self.flow = nf.MultiscaleFlow(
            [nf.distributions.DiagGaussian(size, trainable=False) for size in reversed(sizes)],
            [level[::-1] for level in reversed(steps)],
            [nf.flows.Merge() for _ in range(levels - 1)],
            class_cond=False,
        )
        self._sizes = [self.flow.q0[i].shape[0] for i in range(levels)]

    def about(self) -> dict[str, Any]:
        return dict(self._shape)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map u (batch, width) to z (batch, width)."""
        parts, _ = self.flow.inverse_and_log_det(vectors)
        return torch.cat(parts, dim=1)

    def inverse(self, z: Tensor) -> Tensor:
        """Map z (batch, width) to u (batch, width)."""
        vectors: Tensor = self.flow.forward_and_log_det(list(torch.split(z, self._sizes, dim=1)))[0]
        return vectors

    def log_prob(self, vectors: Tensor) -> Tensor:
        """Compute log p(u) = log N(z; 0, I) + log |det dz/du| in nats, (batch,), for u (batch, width)."""
        parts, log_det = self.flow.inverse_and_log_det(vectors)
        logs: Tensor = log_det + sum(prior.log_prob(part) for prior, part in zip(self.flow.q0, parts, strict=True))
        return logs


def _step(width: int, hidden: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Make the parts of one step, in order from u to z. The coupling starts as the identity (Glow, section 3.3)."""
    import normflows as nf

    half = width - width // 2
    shift = nf.nets.MLP([half, hidden, hidden, width - half], init_zeros=True)
    return nf.flows.ActNorm((width,)), nf.flows.Permute(width), nf.flows.AffineCouplingBlock(shift, scale=False)
