"""Compute accuracy and consistency of a victim on a contrast set, and its accuracy on an adversarial set.

Of a contrast set:

| score       | numerator                                                         | denominator                       |
|-------------|-------------------------------------------------------------------|-----------------------------------|
| ori         | originals classified correctly                                    | bundles                           |
| rev         | edits classified correctly                                        | edits                             |
| con         | bundles whose original and edits are all classified correctly     | bundles                           |
| rev_changed | correct edits whose label differs from their original's           | such edits                        |
| rev_kept    | correct edits with their original's label                         | such edits                        |
| con_pairs   | edits that are correct and whose original is correct              | edits                             |

`con` is the contrast consistency of Gardner et al. (2020, section 2). It covers all edits, also those that keep the
label. If each bundle has one edit, `con_pairs` equals `con`; if a bundle has several, `con` is the stricter score.

Intervals are Wilson's 95% intervals. They cover the random choice of clusters, which are assumed to be independent. A
cluster is a bundle, or, if the set names clusters, all bundles of one cluster (PERSPECTRUM's 217 bundles come from 33
claims). Texts of one cluster are not independent, so Wilson's interval uses the effective sample size `units` in place
of n: p (1 - p) over the variance of the share between clusters (Kish 1965; Korn and Graubard 1998). `units` is at most
n. It is the number of clusters if all texts are correct or all are wrong.

Of an adversarial set, beside the accuracy on the same originals:

| score          | numerator                                                     | denominator   |
|----------------|---------------------------------------------------------------|---------------|
| clean          | originals classified correctly                                | rows          |
| adversarial    | rows classified correctly: changed texts, and originals that  | rows          |
|                | no attack changed                                             |               |
| clean_changed  | originals of changed texts classified correctly               | changed texts |
| changed        | changed texts classified correctly                            | changed texts |

A changed text is one with which the attack succeeded on the victim that the set was made against. `adversarial` is
"accuracy on the adversarial test set" (CLINE, section 4.4, Table 5), which does not say which texts it counts: all rows
is ours. The label of a changed text is its original's. Intervals are Wilson's 95% intervals; a row counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbench.schema import Prediction, Score
from rbench.score.statistics import Proportion, make_score, wilson

# Part of the key of contrast and adversarial jobs (config/versions.py): raising it computes them anew.
# tests/golden holds the values.
VERSION = 1

SCORES = ("ori", "rev", "con", "rev_changed", "rev_kept", "con_pairs")


@dataclass(frozen=True)
class BundleResult:
    """The correctness of a victim on one bundle."""

    original: bool
    """Whether the original is classified correctly."""
    edits: tuple[tuple[bool, bool], ...]
    """For each edit: whether it is classified correctly, and whether its label differs from the original's."""
    cluster: str | None = None
    """Name of the bundle's cluster. Bundles of one cluster are not independent. None: the bundle is a cluster."""

    @property
    def consistent(self) -> bool:
        """Whether the original and all edits are classified correctly."""
        return self.original and all(correct for correct, _ in self.edits)


def group_into_bundles(predictions: Iterable[Prediction]) -> list[BundleResult]:
    """Group predictions into bundles, in the order of their first prediction. Each bundle has one original."""
    bundles: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        bundles.setdefault(prediction.bundle, []).append(prediction)
    results = []
    for members in bundles.values():
        (original,) = (member for member in members if member.original)
        edits = [(edit.label == edit.prediction, edit.label != original.label) for edit in members if not edit.original]
        results.append(BundleResult(original.label == original.prediction, tuple(edits), original.cluster))
    return results


def contrast_scores(bundles: Sequence[BundleResult]) -> tuple[Score, ...]:
    """Return all SCORES, which are shares in 0..1 and are defined at the head of this module.

    A score whose denominator is 0 has the value None.
    """

    return tuple(_share_of_clusters(name, _count_by_cluster(bundles, name)) for name in SCORES)


def contrast_values(bundles: Sequence[BundleResult], name: str) -> NDArray[np.float64] | None:
    """Return the value of each of K clusters (K,), in the order of their first bundle; their mean is the score.

    They are 0 or 1 where each cluster has one text. Elsewhere a score is a ratio of two sums, and a value is the score
    plus what the cluster adds to the linearised ratio (Kish 1965). The standard deviation of the values over the root
    of K is the standard error of the score, and the values of two victims of one set give that of their difference.

    Args:
        name: one of SCORES.

    None where no text counts for the score.
    """
    num_correct, n = np.array(_count_by_cluster(bundles, name), dtype=np.float64).reshape(-1, 2).T
    if not n.any():
        return None
    share = num_correct.sum() / n.sum()
    values: NDArray[np.float64] = (
        num_correct if np.all(n == 1) else share + (num_correct - share * n) * len(n) / n.sum()
    )
    return values


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean of a share over victims of the same units, such as bundles or test rows.

    n is that of one victim, because all have the same units. The interval is Wilson's, with the smallest `units` of
    the victims. It covers the choice of units, as if the victims agreed on each, and not the differences
    between victims.

    Raises:
        ValueError: names or n differ, or there is no score.
    """
    values = [score.value for score in scores if score.value is not None]
    if not values:
        return scores[0]
    mean = math.fsum(values) / len(values)
    units = min(score.n if score.units is None else score.units for score in scores)
    low, high = wilson(mean * units, units) or (None, None)
    return Score(name=scores[0].name, value=mean, n=scores[0].n, low=low, high=high, units=units)


def _count_correct(edits: Sequence[tuple[bool, bool]], original: bool = True) -> tuple[int, int]:
    """Return how many edits are correct (0 if `original` is False), and how many there are."""
    return sum(correct and original for correct, _ in edits), len(edits)


_COUNTERS: Mapping[str, Callable[[BundleResult], tuple[int, int]]] = {
    "ori": lambda bundle: (int(bundle.original), 1),
    "rev": lambda bundle: _count_correct(bundle.edits),
    "con": lambda bundle: (int(bundle.consistent), 1),
    "rev_changed": lambda bundle: _count_correct([edit for edit in bundle.edits if edit[1]]),
    "rev_kept": lambda bundle: _count_correct([edit for edit in bundle.edits if not edit[1]]),
    "con_pairs": lambda bundle: _count_correct(bundle.edits, bundle.original),
}
"""How many texts of a bundle are correct, and how many count, by score."""


def _count_by_cluster(bundles: Sequence[BundleResult], name: str) -> list[tuple[int, int]]:
    """Return the pairs (correct, all) of the clusters. A bundle whose cluster is None is a cluster of its own."""
    by_cluster: dict[str | int, tuple[int, int]] = {}
    for i, bundle in enumerate(bundles):
        cluster = i if bundle.cluster is None else bundle.cluster
        pair = zip(by_cluster.get(cluster, (0, 0)), _COUNTERS[name](bundle), strict=True)
        num_correct, n = (a + b for a, b in pair)
        by_cluster[cluster] = (num_correct, n)
    return [*by_cluster.values()]


def _share_of_clusters(name: str, clusters: Sequence[tuple[int, int]]) -> Score:
    """Return the share of correct ones, from the pairs (correct, all) of clusters."""
    num_correct, n = (sum(column) for column in zip(*clusters, strict=True)) if clusters else (0, 0)
    if n == 0:
        return Score(name=name, value=None, n=0)
    units = effective_size(clusters)
    low, high = wilson(num_correct / n * units, units) or (None, None)
    return Score(name=name, value=num_correct / n, n=n, low=low, high=high, units=units)


def effective_size(clusters: Sequence[tuple[int, int]]) -> float:
    """Return the effective sample size of a share, from the pairs (correct, all) of clusters; 0 without observations.

    See the head of this module for the formula.
    """
    counted = [(num_correct, n) for num_correct, n in clusters if n]
    total = sum(n for _, n in counted)
    share = sum(num_correct for num_correct, _ in counted) / total if total else 0.0
    if max((n for _, n in counted), default=0) <= 1:
        return float(total)
    squares = math.fsum((num_correct - share * n) ** 2 for num_correct, n in counted)
    if squares == 0:  # all correct, all wrong, or the same share in each cluster
        return float(total if 0 < share < 1 else len(counted))
    return min(float(total), share * (1 - share) * total**2 / squares)


SET_SCORES = ("clean", "adversarial", "clean_changed", "changed")


def adversarial_scores(rows: Sequence[BundleResult]) -> tuple[Score, ...]:
    """Return all SET_SCORES, shares in 0..1; None where the denominator is 0.

    Args:
        rows: each with its original and, where the attack succeeded, its changed text as the one edit
            (`rbench.score.contrast.group_into_bundles` makes them of stored predictions).
    """
    changed = [(row.original, row.edits[0][0]) for row in rows if row.edits]
    correct_rows = {
        "clean": [row.original for row in rows],
        "adversarial": [_withstood(row) for row in rows],
        "clean_changed": [original for original, _ in changed],
        "changed": [correct_rows for _, correct_rows in changed],
    }
    return tuple(make_score(name, Proportion(sum(correct_rows[name]), len(correct_rows[name]))) for name in SET_SCORES)


def adversarial_values(rows: Sequence[BundleResult]) -> list[float]:
    """Return for each row whether it is classified correctly, 1 or 0; their mean is the score `adversarial`."""
    return [float(_withstood(row)) for row in rows]


def _withstood(row: BundleResult) -> bool:
    return row.edits[0][0] if row.edits else row.original
