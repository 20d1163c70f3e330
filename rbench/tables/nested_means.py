"""Compute the interval of a mean over several victims, with their trainings, fine-tunings and examples as levels.

Trainings of an encoder, and fine-tuning seeds of a training, are draws as examples are: three of them say how much the
next one may differ (`score.nested_intervals`). `score.combined` judges claims and comparisons in this way, so a table's
interval of a rate and the interval that a claim on it gives are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rbench.score.combined import Part, combine

Values = dict[str, float]
"""By example; those that are in no denominator of the metric are left out."""


@dataclass(frozen=True)
class Observed:
    """What one job adds to a metric."""

    seed: int
    training: int
    values: Values
    by_rater: Mapping[str, Values] = field(default_factory=dict)
    """Of a metric of what people said: the values by the answers of each rater alone."""

    def said_by(self, rater: str) -> list[float]:
        """Return the values by the answers of one rater; those of all where this one said nothing."""
        own = self.by_rater.get(rater, {})
        return [own.get(unit, value) for unit, value in self.values.items()]


Rows = Sequence[tuple[Observed, int]]
"""Jobs, each with the round to which its training belongs; see `Part.rounds`."""


def part(rows: Rows, weight: float, task: str, encoder: str) -> Part:
    """Return the values of one cell's jobs as a part of a sum of cells' means."""
    sizes = [(one, rank, len(one.values)) for one, rank in rows]
    people = {who: 0 for one, _ in rows for who in one.by_rater}
    return Part(
        weight=weight,
        task=task,
        encoder=encoder,
        values=[value for one, _ in rows for value in one.values.values()],
        examples=[f"{one.seed}/{example}" for one, _ in rows for example in one.values],
        seeds=[seed for one, _, n in sizes for seed in [one.seed] * n],
        trainings=[training for one, _, n in sizes for training in [one.training] * n],
        rounds=[round_ for _, rank, n in sizes for round_ in [rank] * n],
        by_rater={who: [x for one, _ in rows for x in one.said_by(who)] for who in people} if people else None,
    )


def observed(jobs: Iterable[tuple[int, int | None, Values | None]]) -> tuple[Observed, ...] | None:
    """Return what the jobs of a cell add to a metric; None where there are none, and where the values of one are lost.

    Args:
        jobs: of each job its fine-tuning seed, its training seed (None where its encoder has none), and its values.
    """
    found = list(jobs)
    known = tuple(Observed(seed, training or 0, values) for seed, training, values in found if values is not None)
    return known if 0 < len(known) == len(found) else None


def limits(cells: Sequence[Sequence[Observed] | None], *, shares: bool = False) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of one encoder's cells, each of which is the mean of its values.

    None where a cell is not known or has no values, or where values do not vary and are no shares.

    Args:
        cells: the jobs of each cell, as `observed` returns them. Cells are of different tasks.
        shares: whether the metric is a share of examples. Where all values are 0 or 1, its interval is within 0..1.
    """
    parts = []
    for i, jobs in enumerate(cells):
        if jobs is None:
            return None
        trainings = sorted({one.training for one in jobs})
        parts.append(part([(one, trainings.index(one.training)) for one in jobs], 1 / len(cells), str(i), ""))
    if not all(one.values for one in parts):
        return None
    counted = shares and all(value in (0.0, 1.0) for one in parts for value in one.values)
    found = combine(parts, n=sum(len(one.values) for one in parts), bound=None, shares=counted)
    return None if found.low is None or found.high is None else (found.low, found.high)
