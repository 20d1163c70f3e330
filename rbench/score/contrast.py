"""Contrast sets: how often a victim is right on originals, on their edits, and on a whole bundle.

| score       | here                                                              | of                                |
|-------------|-------------------------------------------------------------------|-----------------------------------|
| ori         | originals that are right                                          | bundles                           |
| rev         | edits that are right                                              | edits                             |
| con         | bundles of which the original and every edit are right            | bundles                           |
| rev_changed | edits with another label than their original's that are right     | such edits                        |
| rev_kept    | edits with their original's label that are right                  | such edits                        |
| con_pairs   | edits that are right together with their original                 | edits                             |

`con` is the contrast consistency of Gardner et al. (2020, section 2), over all edits, those that keep the label
included. Where each bundle has one edit, `con_pairs` is the same number; where it has several, `con` is the stricter.

Intervals are Wilson's, 95%, and cover the choice of clusters, which are taken to be drawn independently. A cluster is
a bundle, or all bundles of one cluster where the set names them (PERSPECTRUM's 217 are made from 33 claims). What
stands in one cluster is not independent: Wilson's interval is computed with `units` in place of n, the number of
independent texts or bundles that would say as much (Kish 1965; Korn and Graubard 1998: p (1 - p) over the variance of
the share between clusters). It is at most n, and the number of clusters where all are right or all are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rbench.score.statistics import Sample, wilson
from rbench.spec import Prediction, Score

VERSION = 1

SCORES = ("ori", "rev", "con", "rev_changed", "rev_kept", "con_pairs")


@dataclass(frozen=True)
class Judged:
    """What a victim made of one bundle: of the original whether it is right, of each edit (right, label changed)."""

    original: bool
    edits: tuple[tuple[bool, bool], ...]
    cluster: str | None = None
    """Which bundles it is not independent of: those of the same name. None is independent of all."""

    @property
    def consistent(self) -> bool:
        """Whether the original and all edits are right."""
        return self.original and all(right for right, _ in self.edits)


def judged(predictions: Iterable[Prediction]) -> list[Judged]:
    """Bundles in order of their first prediction. Raises ValueError for a bundle without an original, or with two."""
    bundles: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        bundles.setdefault(prediction.bundle, []).append(prediction)
    found = []
    for name, members in bundles.items():
        originals = [member for member in members if member.original]
        if len(originals) != 1:
            raise ValueError(f"bundle {name} has {len(originals)} originals")
        (original,) = originals
        edits = [(edit.label == edit.prediction, edit.label != original.label) for edit in members if not edit.original]
        found.append(Judged(original.label == original.prediction, tuple(edits), original.cluster))
    return found


def contrast_scores(bundles: Sequence[Judged]) -> tuple[Score, ...]:
    """All of SCORES, shares in 0..1; without a value where there is nothing to divide by. See the module's head."""

    def share(name: str, counted: Callable[[Judged], tuple[int, int]]) -> Score:
        return _share(name, _clustered((bundle.cluster, counted(bundle)) for bundle in bundles))

    return (
        share("ori", lambda bundle: (int(bundle.original), 1)),
        share("rev", lambda bundle: _right(bundle.edits)),
        share("con", lambda bundle: (int(bundle.consistent), 1)),
        share("rev_changed", lambda bundle: _right([edit for edit in bundle.edits if edit[1]])),
        share("rev_kept", lambda bundle: _right([edit for edit in bundle.edits if not edit[1]])),
        share("con_pairs", lambda bundle: _right(bundle.edits, bundle.original)),
    )


def mean_score(scores: Sequence[Score]) -> tuple[Score, float | None]:
    """The mean of a share over victims that saw the same bundles, and its standard deviation between them.

    n is that of one victim, for the bundles are the same; the interval is Wilson's with the smallest of the victims'
    `units`: it covers the choice of bundles, as if the victims agreed on each, and not differences between victims.
    Raises ValueError where names or n differ, or there is no score.
    """
    if len({(score.name, score.n) for score in scores}) != 1:
        raise ValueError("a mean is of the same share of the same bundles")
    values = [score.value for score in scores if score.value is not None]
    if not values:
        return scores[0], None
    mean = math.fsum(values) / len(values)
    units = min(score.n if score.units is None else score.units for score in scores)
    low, high = wilson(mean * units, units) or (None, None)
    score = Score(name=scores[0].name, value=mean, n=scores[0].n, low=low, high=high, units=units)
    return score, Sample.of(values).deviation


def _right(edits: Sequence[tuple[bool, bool]], original: bool = True) -> tuple[int, int]:
    """How many edits are right, and how many there are."""
    return sum(right and original for right, _ in edits), len(edits)


def _clustered(counts: Iterable[tuple[str | None, tuple[int, int]]]) -> list[tuple[int, int]]:
    """(right, all) by cluster, of (cluster, (right, all)) by bundle; a bundle without a cluster is one."""
    found: list[tuple[int, int]] = []
    at: dict[str, int] = {}
    for cluster, (right, n) in counts:
        if cluster is None:
            found.append((right, n))
            continue
        i = at.setdefault(cluster, len(found))
        if i == len(found):
            found.append((0, 0))
        found[i] = (found[i][0] + right, found[i][1] + n)
    return found


def _share(name: str, clusters: Sequence[tuple[int, int]]) -> Score:
    """The share of right ones among all, of (right, all) by cluster."""
    right, n = (sum(column) for column in zip(*clusters, strict=True)) if clusters else (0, 0)
    if n == 0:
        return Score(name=name, value=None, n=0)
    units = effective(clusters)
    low, high = wilson(right / n * units, units) or (None, None)
    return Score(name=name, value=right / n, n=n, low=low, high=high, units=units)


def effective(clusters: Sequence[tuple[int, int]]) -> float:
    """How many independent observations say as much as these (right, all) by cluster do; 0 where there is none."""
    counted = [(right, n) for right, n in clusters if n]
    total = sum(n for _, n in counted)
    share = sum(right for right, _ in counted) / total if total else 0.0
    if max((n for _, n in counted), default=0) <= 1:
        return float(total)
    squares = math.fsum((right - share * n) ** 2 for right, n in counted)
    if squares == 0:  # all right, all wrong, or the same share in each cluster
        return float(total if 0 < share < 1 else len(counted))
    return min(float(total), share * (1 - share) * total**2 / squares)
