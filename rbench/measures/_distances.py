"""Distances of texts and adversarial texts in a vector space, with paired bootstrap intervals.

ADCL, section 4.5: d_pos is the mean distance of a text to its adversarial text, d_neg the mean distance of a text to
every other text and every other adversarial text, delta = d_neg - d_pos. The paper's formula of d_neg lacks a factor
1/M, without which it is M times the average that the paper's words and numbers mean (ours: the average). The ratio
d_pos / d_neg is ours: vector spaces differ in scale, which delta follows and the ratio does not.

The distance is Euclidean; the paper names none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NUMBERS = ("d_pos", "d_neg", "delta", "ratio")
BATCH = 256
"""Resamples that are computed at once."""


class Distances(NamedTuple):
    """What d_pos and d_neg need of one vector space with M texts."""

    pos: Array
    """Distance of each text to its adversarial text, (M,)."""
    neg: Array
    """Distance of text i to text j, plus that to adversarial text j, (M, M). Its diagonal is not read."""

    @classmethod
    def of(cls, clean: Array, adversarial: Array) -> Distances:
        """Compute them from vectors of texts and of their adversarial texts, each (M, dim)."""
        from scipy.spatial.distance import cdist

        apart = cdist(clean, adversarial)
        return cls(np.diag(apart).copy(), cdist(clean, clean) + apart)

    def numbers(self, weights: Array) -> Array:
        """Return NUMBERS for each row of `weights`, (4, rows).

        Args:
            weights: how often each text is drawn, (rows, M). A text that is drawn twice is no negative of itself.
        """
        total = weights.sum(-1)
        d_pos = weights @ self.pos / total
        pairs = total**2 - (weights**2).sum(-1)
        sums = ((weights @ self.neg) * weights).sum(-1) - weights**2 @ np.diag(self.neg)
        with np.errstate(divide="ignore", invalid="ignore"):
            d_neg = sums / (2 * pairs)  # no pairs where one text is drawn M times: not a number
            return np.stack([d_pos, d_neg, d_neg - d_pos, d_pos / d_neg])


class Estimate(NamedTuple):
    """A number with the standard error and the 95% percentile interval of its bootstrap; None where not finite."""

    value: float | None
    low: float | None
    high: float | None
    error: float | None


def estimates(
    spaces: Sequence[Distances], against: Sequence[int | None], draws: int, seed: int
) -> list[list[Estimate]]:
    """Return estimates for each vector space: NUMBERS, then its ratio less that of the space `against` it, if any.

    All spaces hold the same texts. A resample draws the same texts in all, so that differences are paired.

    Args:
        spaces: the vector spaces, each of the same M >= 2 texts.
        against: for each space the index of the one to compare it with, or None.
        draws: resamples of scipy's bootstrap.
        seed: seeds the resamples.
    """
    from scipy.stats import bootstrap

    n = len(spaces[0].pos)

    def statistic(drawn: NDArray[np.int64], axis: int = -1) -> Array:
        rows = np.atleast_2d(np.moveaxis(drawn, axis, -1))
        weights = np.stack([np.bincount(row, minlength=n) for row in rows]).astype(float)
        found = np.stack([space.numbers(weights) for space in spaces])
        less = [found[i, 3] - found[i if other is None else other, 3] for i, other in enumerate(against)]
        every = np.concatenate([found, np.stack(less)[:, None]], axis=1)
        return every if drawn.ndim > 1 else every[..., 0]

    points = statistic(np.arange(n))
    result = bootstrap(
        (np.arange(n),),
        statistic,
        vectorized=True,
        n_resamples=draws,
        batch=BATCH,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    every = [
        [Estimate(*map(_finite, four)) for four in zip(*parts, strict=True)]
        for parts in zip(points, low, high, result.standard_error, strict=True)
    ]
    return [own if other is not None else own[:-1] for own, other in zip(every, against, strict=True)]


def _finite(number: float) -> float | None:
    """With few texts a resample may be one text without negatives, and an interval is then not a number."""
    return float(number) if np.isfinite(number) else None
