"""How objectives that are a loss over the views of a batch are built, and what objectives without steps share.

These have the encoder, saving it, and how far its vectors moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.schema import EncoderSpec
from rbench.train import models
from rbench.train.models import sentence_encoder

if TYPE_CHECKING:
    from rbench.train.contrastive import ContrastiveObjective

TEXTS = 500
"""The most texts whose vectors are compared."""


def built_with(losses: Callable[..., Any]) -> Callable[..., ContrastiveObjective]:
    """Return `build` of an objective with these `losses(options, model, batch)`. An option `head` names the head."""

    def build(options: Any, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
        """Build the objective on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.contrastive import ContrastiveObjective

        return ContrastiveObjective(spec, base, options, partial(losses, options), head=getattr(options, "head", "mlp"))

    return build


class FittedEncoder:
    """Implement `Fitted` but for `fit`, on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""

    TITLE: str
    """What is done, for error messages."""

    def __init__(self, spec: EncoderSpec, base: str | Path | None) -> None:
        assert spec.train is not None
        self._name, self._train = spec.name, spec.train
        self.encoder = sentence_encoder(spec, base)

    def drift(self, texts: Sequence[str]) -> Callable[[], dict[str, float]]:
        """Return a function that compares the encoder's vectors with those of now, for up to 500 of the texts, evenly.

        It returns `cosine`, the mean cosine of the vectors of `texts` texts then and now, and their number `texts`.
        """
        sample = list(texts[:: math.ceil(len(texts) / TEXTS)])
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
        models.save(folder, self.encoder)
