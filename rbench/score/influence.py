"""What each pair adds to Spearman's correlation, so that correlations are compared and averaged as means are.

The influence function of Spearman's coefficient says how much it changes if one pair gets a little more weight (Croux
and Dehon 2010, "Influence functions of the Spearman and Kendall correlation measures", section 2; here for mid-ranks,
since gold scores have many ties). The coefficient plus the influence of a pair is that pair's value. The mean of the
values is the coefficient, and their standard deviation over the root of n is its standard error (the infinitesimal
jackknife, Efron 1982). The values of two encoders on the same pairs give the interval of their paired difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]

VERSION = 1


def spearman_values(predicted: ArrayLike, gold: ArrayLike) -> Values | None:
    """Return the value of each pair (n,), whose mean is Spearman's correlation of two series (n,).

    None where the correlation is not defined, because one series has equal numbers only, or none.
    """
    x, y = (np.unique(np.asarray(series, dtype=np.float64), return_inverse=True)[1] for series in (predicted, gold))
    if not len(x) or not x.max() or not y.max():
        return None
    a, b = (_centred_ranks(codes) for codes in (x, y))
    both, of_a, of_b = float(np.mean(a * b)), float(np.mean(a * a)), float(np.mean(b * b))
    of_both = a * b + _moved(x, b) + _moved(y, a) - 3 * both
    influence = of_both / np.sqrt(of_a * of_b)
    coefficient = both / np.sqrt(of_a * of_b)
    for codes, ranks, variance in ((x, a, of_a), (y, b, of_b)):
        influence -= coefficient / 2 * ((ranks * ranks + 2 * _moved(codes, ranks)) / variance - 3)
    found: Values = coefficient + influence
    return found


def _centred_ranks(codes: NDArray[np.intp]) -> Values:
    """Return mid-ranks as shares of n, less their mean: the share of smaller numbers and half of the equal ones."""
    sizes = np.bincount(codes)
    below: Values = (sizes.cumsum() - sizes / 2) / len(codes) - 0.5
    return below[codes]


def _moved(codes: NDArray[np.intp], weights: Values) -> Values:
    """Return, for each number, the mean over all pairs of `weights`, times how far this number lifts their rank.

    A number lifts the ranks of greater numbers wholly, and of equal ones by half.
    """
    sums = np.bincount(codes, weights=weights)
    above = sums[::-1].cumsum()[::-1] - sums / 2
    found: Values = above[codes] / len(codes)
    return found
