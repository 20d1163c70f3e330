"""Numbers of what people said of texts: intervals with texts and raters as levels, agreement, and consistency.

A share of valid successes is a product: of ASR, which all attacked texts tell, and of the share K of successes that
people accept, which the judged ones tell. Its limits are those of the product of two independent estimates by MOVER
(Zou and Donner 2008): reach^2 = (K reach(ASR))^2 + (ASR reach(K))^2, each reach from Wilson's limits, so that 50 of 50
accepted texts do not give an interval without width. Where several people judge a text, its value is the share of them
that accept it, and K has the number of texts by which such values vary.

Raters are draws, as trainings are, and are joined to the texts as `score.nested_intervals` says. So two raters who
differ say little of what a third would say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from rbench.score.nested_intervals import NEGLIGIBLE, squared_reach_of_draws, sum_variances
from rbench.score.statistics import CONFIDENCE, wilson

Values = NDArray[np.float64]


Codes = NDArray[np.int64]


class RaterVariance(NamedTuple):
    """What the mean of some raters varies by because others might have been asked."""

    variance: float = 0.0
    freedom: float = 0.0
    """Degrees of freedom: raters less one; 0 for a single one, who tells nothing of others."""

    noise: float = 0.0
    """What `variance` would be on average if raters did not differ."""

    def squared_reach(self, of_texts: float) -> float:
        """Return what raters add to the squared reach of a 95% interval.

        Args:
            of_texts: the squared reach that texts alone give.
        """
        if not self.freedom:
            return 0.0
        texts = max(of_texts / float(ndtri(0.5 + CONFIDENCE / 2)) ** 2, self.noise)
        return float(squared_reach_of_draws(texts, self.variance, self.freedom, self.noise, CONFIDENCE))


def estimate_rater_variance(by_rater: Values) -> RaterVariance:
    """Return what raters vary by.

    Args:
        by_rater: (raters, texts), what each text adds to the mean by the answers of each rater.
    """
    raters, texts = by_rater.shape
    if raters < 2 or texts < 2:
        return RaterVariance()
    means, text_means = by_rater.mean(axis=1), by_rater.mean(axis=0)
    # Two-way analysis of variance without replication: the residual after rater and text effects is the noise.
    residuals = by_rater - text_means - means[:, None] + by_rater.mean()
    noise = float(np.sum(residuals**2)) / ((texts - 1) * (raters - 1)) / (texts * raters)
    of_texts = float(text_means.var(ddof=1)) / texts
    variance = float(means.var(ddof=1)) / raters
    return RaterVariance(variance, raters - 1, min(noise, of_texts)) if variance > NEGLIGIBLE else RaterVariance()


def rater_variance_of_sums(parts: Iterable[tuple[Mapping[str, Values], Codes]]) -> RaterVariance:
    """Return what a sum varies by because others might have been asked.

    People who judged the same parts count as the same ones in each, so what they have in common cancels out of a
    difference. Those of other sheets are others.

    Args:
        parts: what the observations of a part add to the sum, (n,), by the answers of each rater; and the number of the
            text of each, the same in all parts.
    """
    by_people: dict[frozenset[str], list[tuple[Mapping[str, Values], Codes]]] = {}
    for by_rater, texts in parts:
        by_people.setdefault(frozenset(by_rater), []).append((by_rater, texts))
    variances = []
    for people, own_parts in by_people.items():
        _, codes = np.unique(np.concatenate([texts for _, texts in own_parts]), return_inverse=True)
        if len(people) > 1 and len(codes):
            contributions = [np.concatenate([by_rater[rater] for by_rater, _ in own_parts]) for rater in sorted(people)]
            size = int(codes.max()) + 1
            # `estimate_rater_variance` takes means over texts, and sums are wanted here: hence the factor `size`.
            variances.append(
                estimate_rater_variance(
                    np.stack([np.bincount(codes, weights=by_one_rater) * size for by_one_rater in contributions])
                )
            )
    variance, freedom = sum_variances((each.variance, each.freedom) for each in variances if each.variance)
    return RaterVariance(variance, freedom, math.fsum(each.noise for each in variances))


def effective_sample_size(shares: Values, raters: int) -> float:
    """Return the number of texts with one rater each whose mean varies as that of shares does.

    Args:
        shares: of each judged text the share of raters who accept it; at least one.
        raters: how many there are.
    """
    n, mean = len(shares), float(shares.mean())
    variance = float(shares.var(ddof=1)) if n > 1 else 0.0
    # N texts with one answer of 0 or 1 each have the variance mean (1 - mean) / N, which is solved for N.
    if variance > NEGLIGIBLE:
        equivalent = n * mean * (1 - mean) / variance
    else:  # every text has the same share: where raters agree, one answer says it, else that of each counts
        equivalent = n * (1 if mean in (0.0, 1.0) else raters)
    return min(max(equivalent, n), n * raters)


def accepted_limits(shares: Values, raters: int, repeats: float = 1) -> tuple[float, float]:
    """Return the limits of the mean of shares, by Wilson's interval with as many texts as these vary like.

    Args:
        shares: as for `effective_sample_size`.
        repeats: in how many seeds each text was attacked, on average.
    """
    size = effective_sample_size(shares, raters) / repeats
    limits = wilson(float(shares.mean()) * size, size)
    assert limits is not None, "there is a text"
    return limits


def limits_of_product(rate: tuple[float, float], mean: float, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the limits of a rate times a mean, as texts alone give them.

    Args:
        rate: how many texts of how many; numbers need not be whole.
        mean: of what people accept, in 0..1, independent of the rate.
        ends: its limits.
    """
    rate_limits = wilson(*rate)
    assert rate_limits is not None, "there is a text"
    value = rate[0] / rate[1]
    down, up = (
        math.hypot(mean * (value - end), value * (mean - other)) for end, other in zip(rate_limits, ends, strict=True)
    )
    return max(0.0, value * mean - down), min(1.0, value * mean + up)


def widen_by_raters(value: float, limits: tuple[float, float], raters: RaterVariance) -> tuple[float, float]:
    """Return the limits of a value in 0..1 with the raters as a level beside."""
    squares = [max(0.0, side) ** 2 for side in (value - limits[0], limits[1] - value)]
    down, up = (math.sqrt(square + raters.squared_reach(square)) for square in squares)
    return max(0.0, value - down), min(1.0, value + up)


def krippendorff_alpha(answers: Sequence[tuple[int, str, int]], *, scale: bool = False) -> float | None:
    """Return Krippendorff's alpha of (rater, item, answer); None where fewer than two items have two answers, or no
    answers differ, so that there is nothing to agree on.

    Args:
        scale: whether answers are numbers, whose distance counts squared; else they are names.
    """
    from nltk.metrics import interval_distance
    from nltk.metrics.agreement import AnnotationTask

    counts: dict[str, int] = {}
    for _, item, _ in answers:
        counts[item] = counts.get(item, 0) + 1
    repeated = [answer_of_item for answer_of_item in answers if counts[answer_of_item[1]] > 1]
    if len({item for _, item, _ in repeated}) < 2 or len({answer for *_, answer in repeated}) < 2:
        return None
    task = AnnotationTask(repeated, distance=interval_distance) if scale else AnnotationTask(repeated)
    return float(task.alpha())
