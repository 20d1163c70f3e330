"""Generates numbers by formula, the same on every machine, and summarizes a tensor in a few numbers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def numbers(name: str, count: int) -> NDArray[np.float64]:
    """`count` numbers in [0, 1) that look random: SplitMix64 (Steele et al. 2014) started from the CRC-32 of `name`."""
    steps = np.arange(1, count + 1, dtype=np.uint64)
    x = np.uint64(zlib.crc32(name.encode())) + steps * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53


def tensor(name: str, *shape: int, size: float = 1.0) -> Tensor:
    """Numbers in -size..size, float64."""
    return torch.from_numpy((2 * numbers(name, int(np.prod(shape))) - 1) * size).reshape(shape)


def fill(module: nn.Module, size: float = 0.5, prefix: str = "") -> None:
    """Give each parameter numbers by its name: matrices within +-size, biases +-0.2, scales of norms 1 +- 0.2."""
    with torch.no_grad():
        for name, parameter in module.named_parameters(prefix):
            flat = parameter.ndim < 2
            drawn = tensor(name, *parameter.shape, size=0.2 if flat else size)
            parameter.copy_(drawn + (1 if flat and name.endswith("weight") else 0))


def digest(x: Any) -> list[float]:
    """Three norms of an array: plain, with a weight for each place, and that of what is above 0.

    None cancels out, so that each is as exact as the numbers are; they tell other sizes, other places, other signs.
    """
    flat = np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x, dtype=np.float64).ravel()
    weights = numbers("digest", len(flat))
    parts = (flat, weights * flat, weights * flat.clip(min=0))
    return [float(np.linalg.norm(part)) for part in parts]


@contextmanager
def portable_dropout() -> Iterator[None]:
    """Inside, dropout masks come from `torch.rand`: those of PyTorch's own differ between its builds.

    Attention goes without dropout.
    """
    attend = nn.functional.scaled_dot_product_attention

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or p == 0:
            return x
        return x * (torch.rand(x.shape) >= p).to(x.dtype) / (1 - p)

    def attention(*given: Any, dropout_p: float = 0.0, **more: Any) -> Tensor:
        return attend(*given, **more)

    with (
        mock.patch.object(nn.functional, "dropout", dropout),
        mock.patch.object(nn.functional, "scaled_dot_product_attention", attention),
    ):
        yield
