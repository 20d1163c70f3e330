"""The vectors of texts in a victim's space, and their places in a plane (t-SNE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier

Array = NDArray[np.float64]
BATCH = 64
PERPLEXITY = 30.0
"""scikit-learn's own default; the paper prints none."""


def vectors(victim: EncoderClassifier, rows: Sequence[tuple[str, ...]]) -> Array:
    """Return the vectors that the victim's head reads, (rows, dim), in the order of `rows`."""
    import torch

    order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
    found = np.zeros((len(rows), victim.encoder.dim))
    victim.eval()
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            columns = [list(column) for column in zip(*(rows[i] for i in chosen), strict=True)]
            encoded = victim.tokenizer(
                *columns, truncation=True, max_length=victim.max_length, padding=True, return_tensors="pt"
            )
            found[chosen] = victim.encoder(**encoded.to(victim.device)).double().cpu().numpy()
    return found


def plane(vectors: Array, seed: int) -> Array:
    """Return places by t-SNE, (rows, 2), each axis scaled to 0..1 as in the paper. Fewer than 4 rows give none: (0, 2).

    The perplexity is scikit-learn's default, or a third of the rows where these are few.
    """
    from sklearn.manifold import TSNE

    if len(vectors) < 4:
        return np.zeros((0, 2))
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors.astype(np.float32))
    low, high = found.min(0), found.max(0)
    return np.asarray((found - low) / np.where(high > low, high - low, 1), dtype=np.float64)
