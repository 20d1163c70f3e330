"""Learn the weights of several losses (Kendall, Gal and Cipolla 2018, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


class UncertaintyWeights(nn.Module):
    """Sum exp(-s_i) L_i + s_i over the losses L_i. Each s_i is learned from 0, so lambda_i = exp(-s_i) starts at 1.

    The paper's loss for classification is L_i / sigma_i^2 + log sigma_i. Here s_i = log sigma_i^2, and the second term
    has weight 1 in place of 1/2, so that the optimum is lambda_i = 1 / L_i. Without that term a learned weight would
    fall to zero.

    Args:
        names: names of the losses.
        clamped: add max(s_i, 0) in place of s_i, as the public code of CLINE has it. A negative s_i is then not
            rewarded, so no lambda_i rises far above 1.
    """

    def __init__(self, names: Sequence[str], *, clamped: bool = False) -> None:
        super().__init__()
        self.names, self._clamped = tuple(names), clamped
        self.s = nn.Parameter(torch.zeros(len(self.names)))

    def forward(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return `loss` and its terms: lambda_i L_i by name, and `uncertainty`, the sum of the terms added for s_i."""
        parts = {name: torch.exp(-s) * losses[name] for name, s in zip(self.names, self.s, strict=True)}
        parts["uncertainty"] = (self.s.clamp(min=0) if self._clamped else self.s).sum()
        return {"loss": torch.stack(list(parts.values())).sum(), **parts}

    @property
    def lambdas(self) -> dict[str, float]:
        """Return the current weights by name."""
        return {name: float(value) for name, value in zip(self.names, torch.exp(-self.s.detach()), strict=True)}
