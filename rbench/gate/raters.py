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

from rbench.score.nested_intervals import Spread
from rbench.score.paired import PairedSample, spread_of
from rbench.score.people import between_sums

Values = NDArray[np.float64]


class Told(NamedTuple):
    """What people told of one run: arrays with a row an example and a column a fine-tuning seed, nan where there is no
    value."""

    values: Values
    by_rater: Mapping[str, Values]
    """By the answers of each rater alone; a rater of another sheet has another name."""
    judged: int
    """How many examples people judged."""


class ToldRise(NamedTuple):
    """The rise of a mean; the fields are those of `gate.score.Rise`."""

    value: float
    n: int
    texts: int
    spread: Spread

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


def told_rise(baseline: Sequence[Told], new: Told, *, higher_is_worse: bool) -> ToldRise | None:
    """Compare the new run with the mean of some baseline runs; None where they share no example.

    Args:
        baseline: one run or more.
        new: of the same shape.
    """
    runs = np.stack([run.values for run in baseline])
    both = ~np.isnan(new.values) & ~np.isnan(runs).any(axis=0)
    if both.sum() < 2:
        return None
    rows, columns = np.nonzero(both)
    sign, n, none = 1.0 if higher_is_worse else -1.0, len(rows), np.zeros(len(rows), np.int64)
    before, after = runs.mean(axis=0)[both], new.values[both]
    sample = PairedSample(before, after, np.arange(n), columns, none, none, rows)
    sides = [(run, -1 / (n * len(baseline))) for run in baseline] + [(new, 1 / n)]
    people = between_sums((_weighed(run, both, weight), rows) for run, weight in sides)
    spread = spread_of(sample)._replace(raters=people.variance, rater_freedom=people.freedom, rater_noise=people.noise)
    judged = min(run.judged for run in (*baseline, new))
    return ToldRise(sign * float((after - before).mean()), n, min(judged, len(np.unique(rows))), spread)


def _weighed(run: Told, both: NDArray[np.bool_], weight: float) -> dict[str, Values]:
    # Where a rater gave no answer, the value of all raters stands in, so that the text sets this rater apart from none.
    return {who: weight * np.where(np.isnan(own), run.values, own)[both] for who, own in run.by_rater.items()}


def deviation(baseline: Sequence[Told], new: Told) -> float:
    """Return the standard deviation between the means of baseline runs, over examples that all runs have."""
    runs = np.stack([run.values for run in baseline])
    both = ~np.isnan(new.values) & ~np.isnan(runs).any(axis=0)
    return float(runs[:, both].mean(axis=1).std(ddof=1))
