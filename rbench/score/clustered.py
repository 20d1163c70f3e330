"""A paired difference whose items come in clusters, such as several questions about one document.

Items of a cluster are alike, so n items say less than n independent ones. The variance of the mean difference is that
of the clusters' sums of residuals,

    G / (G - 1) * sum over clusters (sum of (d - mean of d))^2 / n^2,

with Student's t of G - 1 degrees of freedom (Liang and Zeger 1986; for evaluations Miller 2024, arXiv:2411.00640).
It equals the standard error that `statsmodels` gives an intercept with `cov_type="cluster"`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbench.score.nested_intervals import VarianceLevels
from rbench.score.paired import DifferenceEstimate
from rbench.score.statistics import CONFIDENCE

FEW_CLUSTERS = 20
"""Below so many clusters, intervals of clustered samples are known to be too narrow."""


def compare_clustered(
    one: NDArray[np.float64], other: NDArray[np.float64], clusters: NDArray[np.int64]
) -> DifferenceEstimate:
    """Compare two means on the same items, which come in clusters.

    Args:
        one, other: values of the same items, (n,), at least one.
        clusters: the number of each item's cluster, (n,). Clusters may differ in size.
    """
    differences = other - one
    n, value = len(differences), float(differences.mean())
    _, places = np.unique(clusters, return_inverse=True)
    sums = np.bincount(places, weights=differences - value)
    count = len(sums)
    if count < 2:
        return DifferenceEstimate(value, n)
    spread = VarianceLevels(float(np.sum(sums**2)) / n**2 * count / (count - 1), count - 1)
    if not spread.known:
        return DifferenceEstimate(value, n, p=1.0 if value == 0 else None)
    low, high = spread.interval(value, CONFIDENCE)
    return DifferenceEstimate(value, n, low, high, spread.p(value), shows=spread.smallest)
