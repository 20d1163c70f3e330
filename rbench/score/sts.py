"""Score semantic textual similarity (STS): correlate cosines of sentence vectors with human similarity scores.

| score    | definition                                                    | 95% interval                          |
|----------|---------------------------------------------------------------|---------------------------------------|
| spearman | Spearman's rank correlation of cosines and gold scores, -1..1 | Fisher's z, Bonett and Wright's error |
| pearson  | Pearson's correlation of cosines and gold scores, -1..1       | Fisher's z                            |

The interval of Spearman's coefficient is tanh(atanh(r) +- 1.96 se) with se = sqrt((1 + r^2 / 2) / (n - 3)) (Bonett and
Wright 2000, Psychometrika 65, pages 23 to 28). Fieller's constant 1.06 in place of 1 + r^2 / 2 gives intervals that are
too narrow for the strong correlations of good encoders. A bootstrap gives the same intervals for the n of STS tasks (a
test compares the two), but takes seconds and depends on its seed. Both cover the random choice of pairs only.

A score has no value if its correlation is not defined: for fewer than 4 pairs (se needs n > 3), and if all cosines or
all gold scores are equal. A correlation of -1 or 1 has no interval, because z is infinite. No score is ever NaN.

`spearman_values` says what each pair adds to Spearman's correlation, so that correlations are compared and averaged as
means are. The influence function of Spearman's coefficient says how much it changes if one pair gets a little more
weight (Croux and Dehon 2010, "Influence functions of the Spearman and Kendall correlation measures", section 2; here
for mid-ranks, since gold scores have many ties). The coefficient plus the influence of a pair is that pair's value. The
mean of the values is the coefficient, and their standard deviation over the root of n is its standard error (the
infinitesimal jackknife, Efron 1982). The values of two encoders on the same pairs give the interval of their paired
difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from rbench.schema import Score, Similarity
from rbench.score.finite import check_finite
from rbench.score.statistics import CONFIDENCE

VERSION = 1

MIN_PAIRS = 4
"""Smallest number of pairs for which a correlation and its interval are defined."""
PERFECT = 1 - 1e-12
"""A correlation of so much is perfect, up to rounding."""
EQUAL_WITHIN = 1e-6
"""Cosines that differ by at most this count as equal: it is the precision of cosines of float32 vectors."""


class RatedPair(Protocol):
    """A pair of texts with its gold score as `label`. Examples of STS tasks have this form."""

    @property
    def texts(self) -> tuple[str, ...]: ...

    @property
    def label(self) -> float | None: ...


@dataclass(frozen=True)
class StsPairs:
    """Pairs of sentences with gold scores. `first`, `second` and `gold` have the same length."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: tuple[float, ...]

    @classmethod
    def of(cls, examples: Iterable[RatedPair]) -> Self:
        """Make pairs from the examples of an STS task."""
        rows = [(*example.texts, example.label) for example in examples]
        first, second, gold = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(first, second, gold)

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def texts(self) -> list[str]:
        """All distinct texts, in the order of their first occurrence."""
        return list(dict.fromkeys((*self.first, *self.second)))

    def scores(self, encode: Callable[[list[str]], NDArray[Any]]) -> tuple[Score, Score]:
        """Score an encoder. `encode` is called once, with all `texts`, and returns their vectors (len(texts), dim)."""
        return sts_scores(self.similarities(encode), self.gold)

    def similarities(
        self, encode: Callable[[list[str]], NDArray[Any]], similarity: Similarity = "cosine"
    ) -> NDArray[np.float64]:
        """Return how alike each pair is, (n,). `encode` is called as by `scores`. Raises JobError as `similarities`."""
        texts = self.texts
        row, vectors = {text: i for i, text in enumerate(texts)}, encode(texts)
        first, second = (vectors[[row[text] for text in side]] for side in (self.first, self.second))
        return similarities(first, second, similarity)


def similarities(first: NDArray[Any], second: NDArray[Any], similarity: Similarity = "cosine") -> NDArray[np.float64]:
    """Return how alike the rows of two arrays (n, dim) are, (n,), computed in float64; more is more alike.

    Cosines are in -1..1; a vector of zeros has cosine 0 with any other, as in scikit-learn. Distances have a minus.

    Raises:
        JobError: a vector has a number that is not finite.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    for vectors in (a, b):
        check_finite(vectors, "the encoder")
    if similarity == "dot":
        return np.asarray((a * b).sum(axis=1))
    if similarity != "cosine":
        return np.asarray(-np.linalg.norm(a - b, ord=1 if similarity == "manhattan" else 2, axis=1))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: NDArray[np.float64] = (a * b).sum(axis=1)
    cosines: NDArray[np.float64] = np.zeros_like(products)
    np.divide(products, lengths, out=cosines, where=lengths > 0)
    return cosines.clip(-1.0, 1.0)


def sts_scores(predicted: ArrayLike, gold: ArrayLike) -> tuple[Score, Score]:
    """Return `spearman` and `pearson` of `predicted` cosines and `gold` scores, both (n,), with their intervals.

    Raises:
        ValueError: a number is not finite.
    """
    x, y = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("cosines and gold scores must be finite numbers")
    n = len(x)
    # Cosines that differ by rounding alone would be ranked by it, and otherwise on another machine.
    if n < MIN_PAIRS or np.ptp(x) <= EQUAL_WITHIN or np.ptp(y) == 0:
        return Score(name="spearman", value=None, n=n), Score(name="pearson", value=None, n=n)
    from scipy.stats import pearsonr, spearmanr  # takes most of a second to import, and tables do not need it

    rank, linear = float(spearmanr(x, y).statistic), float(pearsonr(x, y).statistic)
    return _make_score("spearman", rank, n, 1 + rank**2 / 2), _make_score("pearson", linear, n, 1.0)


def mean_correlation(scores: Sequence[Score]) -> Score:
    """Return the mean of a correlation over encoders that were scored on the same pairs, such as several trainings.

    n is that of one encoder. The interval is Fisher's z around the mean, as wide as that of one encoder: it covers the
    choice of pairs and not the differences between encoders. Scores without a value are left out.

    Raises:
        ValueError: names or n differ, or there is no score.
    """
    values = [score.value for score in scores if score.value is not None]
    if len(scores) == 1 or not values:
        return scores[0]
    mean = math.fsum(values) / len(values)
    return _make_score(scores[0].name, mean, scores[0].n, 1 + mean**2 / 2 if scores[0].name == "spearman" else 1.0)


def pooled_spearman(scores: Sequence[Score], repeats: float = 1) -> Score:
    """Return the mean of Spearman's correlation over samples of pairs, weighted by their n. n is their sum.

    The interval is Fisher's z around the mean, with the sum of n - 3 over the samples as its degrees of freedom. Where
    each pair is in `repeats` samples, that sum is divided by `repeats`. Samples without a value are left out.
    """
    n = sum(score.n for score in scores)
    known = [(score.n, score.value) for score in scores if score.value is not None]
    if not known:
        return Score(name="spearman", value=None, n=n)
    mean = math.fsum(size * value for size, value in known) / sum(size for size, _ in known)
    free = sum(size - 3 for size, _ in known) / repeats
    return _make_score("spearman", mean, n, 1 + mean**2 / 2, free)


def _make_score(name: str, correlation: float, n: int, variance: float, freedom: float | None = None) -> Score:
    """Return a correlation with its interval, by Fisher's z with the variance `variance` / `freedom` (n - 3)."""
    if abs(correlation) >= PERFECT:
        return Score(name=name, value=math.copysign(1.0, correlation), n=n)
    low, high = fisher_interval(correlation, math.sqrt(variance / (freedom or n - 3)))
    return Score(name=name, value=correlation, n=n, low=low, high=high)


def fisher_interval(r: float, error: float) -> tuple[float, float]:
    """Return the 95% interval of a correlation that is not perfect, from the standard error of its Fisher's z."""
    z, half = math.atanh(r), float(ndtri((1 + CONFIDENCE) / 2)) * error
    return math.tanh(z - half), math.tanh(z + half)


Values = NDArray[np.float64]


def spearman_values(predicted: ArrayLike, gold: ArrayLike) -> Values | None:
    """Return the value of each pair (n,), whose mean is Spearman's correlation of two series (n,).

    None where the correlation is not defined, because one series has equal numbers only, or none.
    """
    x, y = (np.unique(np.asarray(series, dtype=np.float64), return_inverse=True)[1] for series in (predicted, gold))
    if not len(x) or not x.max() or not y.max():
        return None
    a, b = (_centred_ranks(codes) for codes in (x, y))
    covariance, variance_a, variance_b = float(np.mean(a * b)), float(np.mean(a * a)), float(np.mean(b * b))
    # A pair contributes by its own ranks, and by shifting the ranks of others in either series. Each of these three
    # terms has the mean `both`, so the influences sum to 0.
    joint_influence = a * b + _mean_lift(x, b) + _mean_lift(y, a) - 3 * covariance
    influence = joint_influence / np.sqrt(variance_a * variance_b)
    coefficient = covariance / np.sqrt(variance_a * variance_b)
    for codes, ranks, variance in ((x, a, variance_a), (y, b, variance_b)):
        influence -= coefficient / 2 * ((ranks * ranks + 2 * _mean_lift(codes, ranks)) / variance - 3)
    values: Values = coefficient + influence
    return values


def _centred_ranks(codes: NDArray[np.intp]) -> Values:
    """Return mid-ranks as shares of n, less their mean: the share of smaller numbers and half of the equal ones."""
    sizes = np.bincount(codes)
    below: Values = (sizes.cumsum() - sizes / 2) / len(codes) - 0.5
    return below[codes]


def _mean_lift(codes: NDArray[np.intp], weights: Values) -> Values:
    """Return, for each number, the mean over all pairs of `weights`, times how far this number lifts their rank.

    A number lifts the ranks of greater numbers wholly, and of equal ones by half.
    """
    sums = np.bincount(codes, weights=weights)
    above = sums[::-1].cumsum()[::-1] - sums / 2
    lifts: Values = above[codes] / len(codes)
    return lifts
