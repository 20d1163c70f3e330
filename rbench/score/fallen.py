"""Count which texts fell to which of several attacks on the same victim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Fallen:
    """How many texts fell to which attacks, of those that every attack attacked."""

    n: int
    """Texts that the victim classified correctly and that errored in no attack."""
    fell_to: tuple[int, ...]
    """For each attack the texts that fell to it."""
    only: tuple[int, ...]
    """For each attack the texts that fell to it and to no other."""
    any: int
    """Texts that fell to at least one attack."""
    all: int
    """Texts that fell to every attack."""

    @classmethod
    def of(cls, fell: NDArray[np.bool_]) -> Fallen:
        """Count.

        Args:
            fell: texts x attacks: whether a text fell to an attack.
        """
        only = fell & (fell.sum(axis=1, keepdims=True) == 1)
        return cls(
            n=len(fell),
            fell_to=tuple(fell.sum(axis=0).tolist()),
            only=tuple(only.sum(axis=0).tolist()),
            any=int(fell.any(axis=1).sum()),
            all=int(fell.all(axis=1).sum()),
        )

    @classmethod
    def pooled(cls, parts: Sequence[Fallen]) -> Fallen:
        """Add up the counts of several seeds or victims with the same attacks; at least one."""
        return cls(
            n=sum(part.n for part in parts),
            fell_to=tuple(map(sum, zip(*(part.fell_to for part in parts), strict=True))),
            only=tuple(map(sum, zip(*(part.only for part in parts), strict=True))),
            any=sum(part.any for part in parts),
            all=sum(part.all for part in parts),
        )
