"""Score an STS set with its subsets, and average correlations of several sets or subsets.

The field's "all" setting correlates all pairs of a set together. SentEval also averages over the subsets of a year,
plainly ("mean") or by their number of pairs ("wmean"). A record holds the correlations of the set and of each subset,
so a table can show any of the three.

Spearman's coefficient has a bootstrap standard error: the standard deviation of 1,000 coefficients, each of as many
pairs as the set has, drawn from it with replacement, by a fixed seed. `Score.sd` holds it times the root of n. An
average takes its samples as independent: its variance is the sum of theirs, each times the square of its weight. Its
95% interval is tanh(atanh(r) +- 1.96 e / (1 - r^2)) with its standard error e. It covers the choice of pairs within
each sample, and neither the choice of sets nor differences between trainings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from rbench.score.statistics import CONFIDENCE
from rbench.score.sts import FEWEST, sts_scores
from rbench.spec import Score

VERSION = 1

DRAWS = 1000
"""Resamples of a bootstrap."""
MISSING = "missing: "
"""Stands before the name of a subset in a record's counts of pairs that are not there."""
_AT_ONCE = 100_000
"""Numbers of a resample that are in memory together."""


def set_scores(predicted: ArrayLike, gold: ArrayLike, subsets: Sequence[str] = ()) -> tuple[Score, ...]:
    """Score a set: `spearman` and `pearson` of all pairs, then both of each subset, such as `spearman:MSRpar`.

    Args:
        predicted, gold: cosines and gold scores, both (n,).
        subsets: the subset of each pair; empty where it is not known.

    Raises:
        ValueError: lengths differ, or a number is not finite.
    """
    x, y = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    found = _with_errors(x, y)
    if not subsets:
        return found
    names = np.asarray(subsets)
    if names.shape != x.shape:
        raise ValueError(f"{len(names)} subsets are named for {len(x)} pairs")
    for subset in dict.fromkeys(subsets):
        own = names == subset
        scores = _with_errors(x[own], y[own])
        found += tuple(one.model_copy(update={"name": of_subset(one.name, subset)}) for one in scores)
    return found


def of_subset(score: str, subset: str) -> str:
    """Return the name of a subset's score in a record: `spearman:MSRpar`."""
    return f"{score}:{subset}"


def average(scores: Sequence[Score], *, by_size: bool = False) -> Score:
    """Return the mean of correlations of independent samples. n is the sum of theirs.

    It has no value where a correlation has none, and no interval where one lacks its standard error, as in records of
    earlier versions.

    Args:
        by_size: whether each correlation counts as often as it has pairs.

    Raises:
        ValueError: there is no score.
    """
    if not scores:
        raise ValueError("an average needs at least one score")
    n = sum(score.n for score in scores)
    values = [score.value for score in scores if score.value is not None]
    if len(values) < len(scores):
        return Score(name=scores[0].name, value=None, n=n)
    weights = [score.n / n if by_size else 1 / len(scores) for score in scores]
    mean = math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
    errors = [weight * score.sd / math.sqrt(score.n) for weight, score in zip(weights, scores, strict=True) if score.sd]
    error = math.sqrt(math.fsum(one**2 for one in errors)) if len(errors) == len(scores) else None
    return _reaching(scores[0].name, mean, n, error)


def over_trainings(scores: Sequence[Score]) -> Score:
    """Return the mean of an average over encoders that were scored on the same pairs, such as several trainings.

    Its interval is as wide as that of one encoder. Scores without a value are left out.

    Raises:
        ValueError: there is no score.
    """
    there = [score for score in scores if score.value is not None]
    if len(scores) == 1 or not there:
        return scores[0]
    mean = math.fsum(score.value or 0 for score in there) / len(there)
    spreads = [score.sd for score in there if score.sd is not None]
    error = math.fsum(spreads) / len(there) / math.sqrt(there[0].n) if len(spreads) == len(there) else None
    return _reaching(there[0].name, mean, there[0].n, error)


def _reaching(name: str, mean: float, n: int, error: float | None) -> Score:
    """Return a correlation with the interval that follows from its standard error; None: it has none."""
    if error is None or abs(mean) >= 1 - 1e-12:
        return Score(name=name, value=mean, n=n)
    half = float(ndtri((1 + CONFIDENCE) / 2)) * error / (1 - mean**2)
    z = math.atanh(mean)
    return Score(name=name, value=mean, n=n, low=math.tanh(z - half), high=math.tanh(z + half), sd=error * math.sqrt(n))


def bootstrap_error(predicted: ArrayLike, gold: ArrayLike) -> float | None:
    """Return the bootstrap standard error of Spearman's correlation of two series (n,).

    Resamples without a coefficient, because all of their values are equal, are left out. None: more than half are.
    """
    x, y = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    n, generator, found = len(x), np.random.default_rng(0), []
    rank_x, rank_y = (_Ranks.of(values) for values in (x, y))
    for start in range(0, DRAWS, size := max(1, _AT_ONCE // n)):
        rows = min(size, DRAWS - start)
        drawn = generator.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        (a, spread_a), (b, spread_b) = rank_x.within(times), rank_y.within(times)
        below = np.sqrt(spread_a * spread_b)
        found.append(np.einsum("ij,ij,ij->i", times, a, b)[below > 0] / below[below > 0])
    defined = np.concatenate(found)
    return float(defined.std(ddof=1)) if 2 * len(defined) > DRAWS else None


def _with_errors(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[Score, ...]:
    """Return `spearman`, with its standard error, and `pearson`."""
    spearman, pearson = sts_scores(x, y)
    if spearman.value is None or len(x) < FEWEST or (error := bootstrap_error(x, y)) is None:
        return spearman, pearson
    return spearman.model_copy(update={"sd": error * math.sqrt(len(x))}), pearson


@dataclass(frozen=True)
class _Ranks:
    """How values are ordered, so that resamples of them are ranked without sorting again."""

    order: NDArray[np.intp]
    """The sorting order of the values (n,)."""
    starts: NDArray[np.intp]
    """Where in that order each group of equal values begins."""
    group: NDArray[np.intp]
    """The group of each value (n,)."""

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Self:
        _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        return cls(np.argsort(values, kind="stable"), np.concatenate(([0], sizes[:-1].cumsum())), group)

    def within(self, times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rank resamples. Equal values share their mean rank, and ranks are counted from their middle.

        Args:
            times: how often each value is in a resample (rows, n).

        Returns:
            The rank of each value (rows, n), and the sum of squares of the ranks of each resample (rows,).
        """
        sizes = np.add.reduceat(times[:, self.order], self.starts, axis=1)
        ranks = sizes.cumsum(axis=1) - (sizes - 1) / 2 - (times.shape[1] + 1) / 2
        return ranks[:, self.group], np.einsum("ij,ij,ij->i", sizes, ranks, ranks)
