"""Pack whether each example was a hit into a few letters, so that encoders can be compared example by example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def packed(hits: Sequence[bool] | NDArray[np.bool_]) -> str:
    """Return the hits as hexadecimal digits, four a digit, in their order; the last digit is filled with zeros."""
    bits = np.asarray(hits, dtype=bool)
    return np.packbits(bits).tobytes().hex()[: -(-len(bits) // 4)]


def unpacked(text: str, n: int) -> NDArray[np.bool_]:
    """Return the `n` hits that `packed` wrote. Raises ValueError where the text has another length."""
    if len(text) != -(-n // 4):
        raise ValueError(f"{len(text)} digits do not hold {n} hits")
    data = bytes.fromhex(text + "0" * (len(text) % 2))
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8))[:n].astype(bool)
