"""Score an STS set with its subsets, and average correlations of several sets or subsets.

The field's "all" setting correlates all pairs of a set together. SentEval also averages over the subsets of a year,
plainly ("mean") or by their number of pairs ("wmean"). A record holds the correlations of the set and of each subset,
so a table can show any of the three.

Spearman's coefficient has a standard error by its influence function (`score.sts`). `Score.sd` holds it times the
root of n. An average takes its samples as independent: its variance is the sum of theirs, each times the square of its
weight. Its 95% interval is tanh(atanh(r) +- 1.96 e / (1 - r^2)) with its standard error e. It covers the choice of
pairs within each sample, and neither the choice of sets nor differences between trainings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbench.schema import Score
from rbench.score.sts import MIN_PAIRS, PERFECT, fisher_interval, spearman_values, sts_scores

# Part of the key of every STS job (`USES` of measures/sts.py, config/versions.py): raising it computes them anew.
# tests/golden and tests/score/test_subsets.py hold the values.
VERSION = 2

MISSING_PREFIX = "missing: "
"""Stands before the name of a subset in a record's counts of pairs that are not there."""


def set_scores(predicted: ArrayLike, gold: ArrayLike, subsets: Sequence[str] = ()) -> tuple[Score, ...]:
    """Score a set: `spearman` and `pearson` of all pairs, then both of each subset, such as `spearman:MSRpar`.

    Args:
        predicted, gold: cosines and gold scores, both (n,).
        subsets: the subset of each pair; empty where it is not known.

    Raises:
        ValueError: a number is not finite.
    """
    x, y = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    scores_of_set = _correlate_with_errors(x, y)
    if not subsets:
        return scores_of_set
    names = np.asarray(subsets)
    for subset in dict.fromkeys(subsets):
        in_subset = names == subset
        scores = _correlate_with_errors(x[in_subset], y[in_subset])
        scores_of_set += tuple(
            score.model_copy(update={"name": subset_score_name(score.name, subset)}) for score in scores
        )
    return scores_of_set


def subset_score_name(score: str, subset: str) -> str:
    """Return the name of a subset's score in a record: `spearman:MSRpar`."""
    return f"{score}:{subset}"


def average_correlations(scores: Sequence[Score], *, by_size: bool = False) -> Score:
    """Return the mean of correlations of independent samples. n is the sum of theirs.

    It has no value where a correlation has none, and no interval where one has no standard error, as Pearson's.

    Args:
        by_size: whether each correlation counts as often as it has pairs.
    """
    n = sum(score.n for score in scores)
    values = [score.value for score in scores if score.value is not None]
    if len(values) < len(scores):
        return Score(name=scores[0].name, value=None, n=n)
    weights = [score.n / n if by_size else 1 / len(scores) for score in scores]
    mean = math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
    errors = [weight * score.sd / math.sqrt(score.n) for weight, score in zip(weights, scores, strict=True) if score.sd]
    error = math.sqrt(math.fsum(error_of_one**2 for error_of_one in errors)) if len(errors) == len(scores) else None
    return _with_interval(scores[0].name, mean, n, error)


def average_over_trainings(scores: Sequence[Score]) -> Score:
    """Return the mean of an average over encoders that were scored on the same pairs, such as several trainings.

    Its interval is as wide as that of one encoder. Scores without a value are left out.

    Raises:
        ValueError: there is no score.
    """
    valued = [score for score in scores if score.value is not None]
    if len(scores) == 1 or not valued:
        return scores[0]
    mean = math.fsum(score.value or 0 for score in valued) / len(valued)
    deviations = [score.sd for score in valued if score.sd is not None]
    error = math.fsum(deviations) / len(valued) / math.sqrt(valued[0].n) if len(deviations) == len(valued) else None
    return _with_interval(valued[0].name, mean, valued[0].n, error)


def _with_interval(name: str, mean: float, n: int, error: float | None) -> Score:
    """Return a correlation with the interval that follows from its standard error; None: it has none."""
    if error is None or abs(mean) >= PERFECT:
        return Score(name=name, value=mean, n=n)
    # Delta method: the derivative of atanh(r) is 1 / (1 - r^2).
    low, high = fisher_interval(mean, error / (1 - mean**2))
    return Score(name=name, value=mean, n=n, low=low, high=high, sd=error * math.sqrt(n))


def standard_error(predicted: ArrayLike, gold: ArrayLike) -> float | None:
    """Return the standard error of Spearman's correlation of two series (n,); None where it is not defined."""
    values = spearman_values(predicted, gold)
    return None if values is None or len(values) < 2 else float(values.std(ddof=1)) / math.sqrt(len(values))


def _correlate_with_errors(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[Score, ...]:
    """Return `spearman`, with its standard error, and `pearson`."""
    spearman, pearson = sts_scores(x, y)
    error = standard_error(x, y) if spearman.value is not None and len(x) >= MIN_PAIRS else None
    if error is None:
        return spearman, pearson
    return spearman.model_copy(update={"sd": error * math.sqrt(len(x))}), pearson
