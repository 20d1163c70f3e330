"""Refuses vectors that have a NaN or an infinity: numbers computed of them would be wrong, and nothing would say so."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError


def check_finite(vectors: NDArray[Any], whose: str) -> None:
    """Raise JobError where one of `vectors` (n, dim) has a number that is not finite; `whose` they are is told."""
    broken = int((~np.isfinite(vectors).all(axis=-1)).sum())
    if broken:
        raise JobError(
            f"{broken} of {len(vectors)} vectors of {whose} have numbers that are not finite (NaN or infinity), so "
            "nothing can be computed of them; the weights are damaged, or the training diverged"
        )
