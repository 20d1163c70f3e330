"""Encode each sentence once, as long as the same encoder is in memory: the sets of STS share a quarter of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rbench.inference import Memo

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

LIMIT = 512 * 1024**2
"""Bytes of vectors and texts that are kept. The seven sets of STS take 46 MB with 384 numbers a vector."""
_OBJECTS = 300
"""Bytes of Python's objects around one text and its vector, roughly."""


class RememberedVectors:
    """An encoder with the vectors of the sentences that it has encoded.

    Args:
        encoder: it must not change, because vectors are not computed again.
        limit: bytes to keep. Beyond that the sentences are dropped that were not asked for longest.
    """

    def __init__(self, encoder: SentenceEncoder, limit: int = LIMIT) -> None:
        self.encoder = encoder
        self._memo: Memo[str, NDArray[np.float32]] = Memo(
            limit, lambda text, vector: vector.nbytes + len(text.encode()) + _OBJECTS
        )

    def encode(
        self,
        texts: list[str],
        backend: str = "torch",
        progress: Callable[[int], Any] | None = None,
    ) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) as `SentenceEncoder.encode` does. `texts` are distinct.

        Args:
            progress: called first with the number of sentences that are remembered, then with that of each batch.
        """
        vectors = np.zeros((len(texts), self.encoder.dim), dtype=np.float32)
        new = []
        for row, text in enumerate(texts):
            known = self._memo.get(text)
            if known is None:
                new.append(row)
            else:
                vectors[row] = known
        if progress is not None and len(new) < len(texts):
            progress(len(texts) - len(new))
        vectors[new] = self.encoder.encode([texts[row] for row in new], backend, progress)
        for row in new:
            self._memo.put(texts[row], vectors[row].copy())  # a view would keep all of `vectors` in memory
        return vectors
