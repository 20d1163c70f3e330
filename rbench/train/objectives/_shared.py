"""What objectives without steps share: the encoder, saving it, and how far its vectors moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rbench.schema import EncoderSpec
from rbench.train import models
from rbench.train.models import open_encoder

MAX_COMPARED = 500
"""The most texts whose vectors are compared."""


class FittedEncoder:
    """Implement `Fitted` but for `fit`, on `base` (a folder or hub id), or on `spec.architecture` if `base`
    is None."""

    TITLE: str
    """What is done, for error messages."""

    def __init__(self, spec: EncoderSpec, base: str | Path | None) -> None:
        assert spec.train is not None
        self._name, self._train = spec.name, spec.train
        self.encoder = open_encoder(spec, base)

    def start_drift(self, texts: Sequence[str]) -> Callable[[], dict[str, float]]:
        """Return a function that compares the encoder's vectors with those of now, for up to 500 of the texts, evenly.

        It returns `cosine`, the mean cosine of the vectors of `texts` texts then and now, and their number `texts`.
        """
        sample = list(texts[:: math.ceil(len(texts) / MAX_COMPARED)])
        before = self.encoder.encode(sample)

        def scores() -> dict[str, float]:
            import torch
            from torch.nn.functional import cosine_similarity

            now = self.encoder.encode(sample)
            cosines = cosine_similarity(torch.from_numpy(before), torch.from_numpy(now), dim=-1)
            return {"cosine": float(cosines.mean()), "texts": float(len(sample))}

        return scores

    def save(self, folder: Path) -> None:
        """Write the encoder, as a SentenceTransformer folder too. A linear transform is a Dense module there."""
        models.save_encoder(folder, self.encoder)
