"""Whitening (Su et al. 2021, section 3, Algorithm 1): a linear map after pooling that makes a corpus's covariance I.

Nothing is trained. The map is computed from mean and covariance of the corpus, and the network does not change.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError
from rbench.schema import EncoderSpec, Strict
from rbench.schema.common import Positive
from rbench.train.objectives._shared import FittedEncoder
from rbench.train.options import Progress

VERSION = 1

BLOCK = 10_000
"""Number of vectors that are converted to float64 at a time."""

log = logging.getLogger("rbench")
Matrix = NDArray[np.float64]


class Options(Strict):
    """Options of the objective."""

    STEPS: ClassVar[bool] = False
    DRAWS: ClassVar[bool] = False
    """Nothing is drawn at random, so that a suite's `train_seeds` reach the base instead."""

    dim: Positive | None = None
    """k: keep the k directions of largest variance. None keeps every direction in which the corpus varies. The
    authors' results have k = 256 for base models and k = 384 for large ones."""


class Whitening(FittedEncoder):
    """Implement `Fitted`."""

    TITLE = "whitening"

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        super().__init__(spec, base)
        self._options = options

    def fit(self, texts: Sequence[str], device: str, progress: Progress | None) -> dict[str, float]:
        """Fit the map on `texts`, cut at `train.max_length` tokens.

        Returns `dim`, which is k, and `kept_variance`, the share of the variance in the k directions kept, 0..1.
        JobError if the texts are too few or their vectors vary in too few directions.
        """
        import torch

        from rbench.encoders.transform import Linear

        done = 0

        def tell(batch: int) -> None:
            nonlocal done
            done += batch
            if progress is not None:
                progress(done, len(texts), "vectors")

        self.encoder.to(device)
        longest, self.encoder.max_length = self.encoder.max_length, min(self._train.max_length, self.encoder.max_length)
        settings, self.encoder.settings = self.encoder.settings, self.encoder.settings.before_transform()
        vectors = self.encoder.encode(texts, progress=tell)
        self.encoder.max_length, self.encoder.settings = longest, settings
        try:
            mean, W, share = whiten(vectors, self._options.dim)
        except ValueError as error:
            raise JobError(f"Encoder {self._name}: {error}") from error
        if W.shape[1] < W.shape[0]:
            log.info("%s: %d of %d dimensions are kept", self._name, W.shape[1], W.shape[0])
        self.encoder.transform = Linear(torch.from_numpy(W.T), torch.from_numpy(-mean @ W)).to(self.encoder.device)
        return {"dim": float(W.shape[1]), "kept_variance": share}


build = Whitening


def whiten(vectors: NDArray[Any], k: int | None) -> tuple[Matrix, Matrix, float]:
    """Return mu (dim,), W (dim, k) and the share of variance kept, 0..1. (vectors - mu) W has mean 0 and covariance I.

    mu is the mean and Sigma the covariance (1/N) of the rows of `vectors` (N, dim), in float64. Sigma = U Lambda U^T
    and W = (U Lambda^(-1/2))[:, :k], with the largest variances first (Su et al. 2021, Algorithm 1).

    Directions in which float32 vectors do not vary, or only by rounding, are never kept, because Lambda^(-1/2) would
    amplify the noise. A network that ends in layer normalisation has such a direction: normalised numbers sum to 0.

    Raises:
        ValueError: N is not above k (`dim` if k is None), or the rows vary in fewer than k directions, or in none.
    """
    count, dim = vectors.shape
    needed = dim if k is None else k
    if needed > dim:
        raise ValueError(f"options.dim is {needed} and the vectors of its base have {dim} numbers")
    if count <= needed:
        raise ValueError(
            f"its corpus has {count} sentences, too few for whitening to {needed} dimensions; take a larger corpus, or "
            "set train.options.dim below the number of sentences"
        )
    mean = vectors.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((dim, dim))
    for start in range(0, count, BLOCK):  # a float64 copy of all vectors would take twice their memory
        apart = vectors[start : start + BLOCK] - mean
        covariance += apart.T @ apart / count
    variances, U = np.linalg.eigh(covariance)
    variances, U = variances[::-1], U[:, ::-1]
    # Directions below the rounding error of float32 are noise, which whitening would scale to unit variance.
    floor = variances[0] * (dim * float(np.finfo(np.float32).eps)) ** 2
    rank = int((variances > max(floor, 0.0)).sum())
    if rank < (k or 1):
        raise ValueError(f"its vectors vary in {rank} directions only, and train.options.dim asks for {k or 1}")
    kept = min(rank, needed)
    share = float(variances[:kept].sum() / variances[:rank].sum())
    # W = U diag(1 / sqrt(variances)), so that W' C W = I for the covariance C (Algorithm 1).
    return mean, U[:, :kept] / np.sqrt(variances[:kept]), share
