"""How far a number that people gave has risen, for `gate.score`: a mean over texts, with raters as a level.

Values of texts are no shares, so p and limits are those of `rbench compare`: Student's t for texts and seeds, and for
the raters of either run, who are others in each sheet (`score.people`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.score.nested_intervals import VarianceLevels
from rbench.score.paired import PairedSample, estimate_levels
from rbench.score.people import rater_variance_of_sums

Values = NDArray[np.float64]


class RaterScores(NamedTuple):
    """What people told of one run: arrays with a row an example and a column a fine-tuning seed, nan where there is no
    value."""

    values: Values
    by_rater: Mapping[str, Values]
    """By the answers of each rater alone; a rater of another sheet has another name."""
    judged: int
    """How many examples people judged."""


class RaterRise(NamedTuple):
    """The rise of a mean; the fields are those of `gate.score.BaselineDelta`."""

    value: float
    n: int
    texts: int
    spread: VarianceLevels

    @property
    def error(self) -> float:
        # The error is at least half a text, because a few answers that agree do not prove that others would.
        return math.sqrt(max(self.spread.total, 0.25 / max(self.texts, 1) ** 2))

    @property
    def p(self) -> float:
        """One-sided."""
        if not self.spread.known:
            return 0.5 if not self.value else float(self.value < 0)
        half = self.spread.p(abs(self.value)) / 2
        return half if self.value > 0 else 1 - half

    def limits(self, level: float) -> tuple[float, float]:
        """Return the limits of the rise at a level, each one-sided."""
        if not self.spread.known:
            reach = self.error * 2
            return self.value - reach, self.value + reach
        return self.spread.interval(self.value, 1 - 2 * level)


def compare_rater_scores(
    baseline: Sequence[RaterScores], new_scores: RaterScores, *, higher_is_worse: bool
) -> RaterRise | None:
    """Compare the new run with the mean of some baseline runs; None where they share no example.

    Args:
        baseline: one run or more.
        new_scores: of the same shape.
    """
    runs = np.stack([run.values for run in baseline])
    in_all_runs = ~np.isnan(new_scores.values) & ~np.isnan(runs).any(axis=0)
    if in_all_runs.sum() < 2:
        return None
    rows, columns = np.nonzero(in_all_runs)
    sign, pair_count, one_level = 1.0 if higher_is_worse else -1.0, len(rows), np.zeros(len(rows), np.int64)
    before, after = runs.mean(axis=0)[in_all_runs], new_scores.values[in_all_runs]
    sample = PairedSample(before, after, np.arange(pair_count), columns, one_level, one_level, rows)
    # The sum over raters is of the difference of both means: the baseline's weights are negative.
    sides = [(run, -1 / (pair_count * len(baseline))) for run in baseline] + [(new_scores, 1 / pair_count)]
    between_raters = rater_variance_of_sums(
        (_weighted_by_rater(run, in_all_runs, weight), rows) for run, weight in sides
    )
    spread = estimate_levels(sample)._replace(
        raters=between_raters.variance, rater_freedom=between_raters.freedom, rater_noise=between_raters.noise
    )
    fewest_judged = min(run.judged for run in (*baseline, new_scores))
    return RaterRise(
        sign * float((after - before).mean()), pair_count, min(fewest_judged, len(np.unique(rows))), spread
    )


def _weighted_by_rater(run: RaterScores, in_all_runs: NDArray[np.bool_], weight: float) -> dict[str, Values]:
    # Where a rater gave no answer, the value of all raters stands in, so that the text sets this rater apart from none.
    return {
        rater: weight * np.where(np.isnan(of_rater), run.values, of_rater)[in_all_runs]
        for rater, of_rater in run.by_rater.items()
    }


def deviation_between_runs(baseline: Sequence[RaterScores], new_scores: RaterScores) -> float:
    """Return the standard deviation between the means of baseline runs, over examples that all runs have."""
    runs = np.stack([run.values for run in baseline])
    in_all_runs = ~np.isnan(new_scores.values) & ~np.isnan(runs).any(axis=0)
    return float(runs[:, in_all_runs].mean(axis=1).std(ddof=1))
