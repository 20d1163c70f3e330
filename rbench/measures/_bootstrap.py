"""Percentile intervals of scipy's bootstrap, over numbers that are computed from how often each text is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BATCH = 256
"""Resamples that are computed at once."""


class Interval(NamedTuple):
    """The 95% interval and the standard error of each number. Not finite where a resample may have no value."""

    low: Array
    high: Array
    error: Array


def interval(sizes: Sequence[int], numbers: Callable[[Sequence[Array]], Array], draws: int, seed: int) -> Interval:
    """Resample texts within each stratum (a seed has a sample of its own), and compute `numbers` of each resample.

    Args:
        sizes: the number of texts of each stratum, at least 2 each.
        numbers: takes weights, how often each text is drawn, (resamples, texts) for each stratum, and returns
            (..., resamples).
        draws: how many resamples.
        seed: seeds the draws.
    """
    from scipy.stats import bootstrap

    def statistic(*drawn: NDArray[np.int64], axis: int = -1) -> Array:
        rows = [np.atleast_2d(places) for places in drawn]
        weights = [np.stack([np.bincount(row, minlength=n) for row in own]) for own, n in zip(rows, sizes, strict=True)]
        found = numbers([own.astype(float) for own in weights])
        return found if drawn[0].ndim > 1 else found[..., 0]

    with warnings.catch_warnings():  # scipy warns where an interval is no number, for which callers have None
        warnings.simplefilter("ignore")
        found = bootstrap(
            tuple(np.arange(n) for n in sizes),
            statistic,
            vectorized=True,
            n_resamples=draws,
            batch=BATCH,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    low, high = found.confidence_interval
    return Interval(np.asarray(low), np.asarray(high), np.asarray(found.standard_error))


def finite(number: float) -> float | None:
    """Return None for what is no number. With few texts a resample may be of one text, or of none that counts."""
    return float(number) if np.isfinite(number) else None
