"""Alignment and uniformity of vectors on the unit sphere (Wang and Isola 2020), with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from rbench.score.statistics import Sample

Array = NDArray[np.float64]
BLOCK = 1024
"""Rows of the matrix of all pairs that are in memory at once."""


class Found(NamedTuple):
    """A number and its 95% interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


def on_sphere(vectors: Array) -> Array:
    """Return the vectors with length 1. A vector 0 has no direction, and its row becomes NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def alignment(first: Array, second: Array) -> Found:
    """Return the mean squared distance of paired rows, each (pairs, dim) of length 1, with Student's t interval.

    The mean of no pairs is not defined, and one pair has no interval.
    """
    distances = Sample.of(np.square(first - second).sum(1).tolist())
    return Found(distances.mean, *(distances.interval() or (None, None)))


def uniformity(vectors: Array, clusters: NDArray[np.int64]) -> Found:
    """Return the logarithm of the mean of exp(-2 d^2) over all pairs of different rows, d their distance.

    Args:
        vectors: (texts, dim), of length 1.
        clusters: for each text its cluster, for instance the pair that it comes from. Texts of one may be alike, and
            clusters are taken for independent. The interval is that of a U-statistic by its first projection.

    It is not defined for fewer than two texts, and has no interval for fewer than two clusters.
    """
    n = len(vectors)
    if n < 2:
        return Found(None)
    means = np.zeros(n)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        kernel = np.exp(4 * (vectors[rows] @ vectors.T) - 4)  # d^2 = 2 - 2 cos
        kernel[np.arange(len(kernel)), np.arange(n)[rows]] = 0
        means[rows] = kernel.sum(1) / (n - 1)
    mean = float(means.mean())
    value = float(np.log(mean))
    _, of = np.unique(clusters, return_inverse=True)
    parts = np.bincount(of, weights=2 * (means - mean) / n)
    if len(parts) < 2:
        return Found(value)
    error = float(np.sqrt(len(parts) / (len(parts) - 1) * np.square(parts).sum())) / mean
    half = float(ndtri(0.975)) * error
    return Found(value, value - half, value + half)
