"""Sums over a whole training. They are part of its checkpoints, so that a resumed run goes on counting."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningSums(nn.Module):
    """Named sums, which start at 0.

    Args:
        names: of the sums. Checkpoints hold the sums in this order, without names.
    """

    total: Tensor

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self.register_buffer("total", torch.zeros(len(names), dtype=torch.float64))

    def add(self, **more: float | Tensor) -> None:
        """Add to sums by name."""
        for name, value in more.items():
            self.total[self._names.index(name)] += float(value)

    def sums(self) -> dict[str, float]:
        """All sums by name."""
        return dict(zip(self._names, self.total.tolist(), strict=True))
