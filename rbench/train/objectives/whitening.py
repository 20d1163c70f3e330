"""Whitening (Su et al. 2021, section 3, Algorithm 1): a linear map after pooling that makes a corpus's covariance I.

Nothing is trained. The map is computed from mean and covariance of the corpus, and the network does not change.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError
from rbench.schema import EncoderSpec, Strict
from rbench.schema.common import Positive
from rbench.system.own_code import failing_in
from rbench.train.objectives import TrainingObjective
from rbench.train.objectives._shared import FittedEncoder
from rbench.train.options import Progress

if TYPE_CHECKING:
    from rbench.words.resources import Resources

VERSION = 1

VECTORS_AT_ONCE = 10_000
"""Number of vectors that are converted to float64 at a time."""

log = logging.getLogger("rbench")
Matrix = NDArray[np.float64]


class Options(Strict):
    """Options of the objective."""

    dim: Positive | None = None
    """k: keep the k directions of largest variance. None keeps every direction in which the corpus varies. The
    authors' results have k = 256 for base models and k = 384 for large ones."""


class WhiteningObjective(FittedEncoder):
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

        from rbench.encoders.transform import LinearTransform

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
        with failing_in(f"encoder `{self._name}`", JobError):
            mean, W, share = whiten(vectors, self._options.dim)
        if W.shape[1] < W.shape[0]:
            log.info("%s: %d of %d dimensions are kept", self._name, W.shape[1], W.shape[0])
        self.encoder.transform = LinearTransform(torch.from_numpy(W.T), torch.from_numpy(-mean @ W)).to(
            self.encoder.device
        )
        return {"dim": float(W.shape[1]), "kept_variance": share}


class WhiteningTraining(TrainingObjective[Options]):
    takes_steps = False
    draws = False
    """Nothing is drawn at random, so that a suite's `train_seeds` reach the base instead."""

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> WhiteningObjective:
        """Build it on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        return WhiteningObjective(options, spec, base)


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
    if count <= needed:
        raise ValueError(
            f"its corpus has {count} sentences, too few for whitening to {needed} dimensions; take a larger corpus, or "
            "set train.options.dim below the number of sentences"
        )
    mean = vectors.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((dim, dim))
    for start in range(0, count, VECTORS_AT_ONCE):  # a float64 copy of all vectors would take twice their memory
        centred = vectors[start : start + VECTORS_AT_ONCE] - mean
        covariance += centred.T @ centred / count
    variances, U = np.linalg.eigh(covariance)
    variances, U = variances[::-1], U[:, ::-1]
    # Directions below the rounding error of float32 are noise, which whitening would scale to unit variance.
    floor = variances[0] * (dim * float(np.finfo(np.float32).eps)) ** 2
    rank = int((variances > max(floor, 0.0)).sum())
    if rank < (k or 1):
        raise ValueError(f"its vectors vary in {rank} directions only, and train.options.dim asks for {k or 1}")
    num_kept = min(rank, needed)
    share = float(variances[:num_kept].sum() / variances[:rank].sum())
    # W = U diag(1 / sqrt(variances)), so that W' C W = I for the covariance C (Algorithm 1).
    return mean, U[:, :num_kept] / np.sqrt(variances[:num_kept]), share
