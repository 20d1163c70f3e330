"""How far an objective without steps moves sentence vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

TEXTS = 500
"""The most texts whose vectors are compared."""


class Drift:
    """Compares the vectors of an encoder with those that it has when this is made.

    Args:
        texts: up to 500 of them are taken, evenly.
    """

    def __init__(self, encoder: SentenceEncoder, texts: Sequence[str]) -> None:
        self._encoder = encoder
        self._sample = list(texts[:: math.ceil(len(texts) / TEXTS)])
        self._before = encoder.encode(self._sample)

    def scores(self) -> dict[str, float]:
        """Return `cosine`, the mean cosine of the vectors of `texts` texts then and now, and their number `texts`."""
        import torch
        from torch.nn.functional import cosine_similarity

        now = self._encoder.encode(self._sample)
        cosines = cosine_similarity(torch.from_numpy(self._before), torch.from_numpy(now), dim=-1)
        return {"cosine": float(cosines.mean()), "texts": float(len(self._sample))}
