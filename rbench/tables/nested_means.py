"""Compute the interval of a mean over several victims, with their trainings, fine-tunings and examples as levels.

Trainings of an encoder, and fine-tuning seeds of a training, are draws as examples are: three of them say how much the
next one may differ (`score.nested_intervals`). `score.combined` judges claims and comparisons in this way, so a table's
interval of a rate and the interval that a claim on it gives are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rbench.score.combined import WeightedCell, combine_cells

Values = dict[str, float]
"""By example; those that are in no denominator of the metric are left out."""


@dataclass(frozen=True)
class JobValues:
    """What one job adds to a metric."""

    seed: int
    training: int
    values: Values
    by_rater: Mapping[str, Values] = field(default_factory=dict)
    """Of a metric of what people said: the values by the answers of each rater alone."""

    def values_by(self, rater: str) -> list[float]:
        """Return the values by the answers of one rater; those of all where this one said nothing."""
        of_rater = self.by_rater.get(rater, {})
        return [of_rater.get(unit, value) for unit, value in self.values.items()]


JobsWithRounds = Sequence[tuple[JobValues, int]]
"""Jobs, each with the round to which its training belongs; see `WeightedCell.rounds`."""


def build_part(jobs_with_rounds: JobsWithRounds, weight: float, task: str, encoder: str) -> WeightedCell:
    """Return the values of one cell's jobs as a part of a sum of cells' means."""
    counted_jobs = [(job_values, round_index, len(job_values.values)) for job_values, round_index in jobs_with_rounds]
    raters = {rater: 0 for job_values, _ in jobs_with_rounds for rater in job_values.by_rater}
    return WeightedCell(
        weight=weight,
        task=task,
        encoder=encoder,
        values=[value for job_values, _ in jobs_with_rounds for value in job_values.values.values()],
        # An example attacked with two seeds is two units, so its id has the seed before it.
        examples=[
            f"{job_values.seed}/{example}" for job_values, _ in jobs_with_rounds for example in job_values.values
        ],
        seeds=[seed for job_values, _, n in counted_jobs for seed in [job_values.seed] * n],
        trainings=[training for job_values, _, n in counted_jobs for training in [job_values.training] * n],
        rounds=[round_ for _, round_index, n in counted_jobs for round_ in [round_index] * n],
        by_rater={
            rater: [x for job_values, _ in jobs_with_rounds for x in job_values.values_by(rater)] for rater in raters
        }
        if raters
        else None,
    )


def collect_job_values(jobs: Iterable[tuple[int, int | None, Values | None]]) -> tuple[JobValues, ...] | None:
    """Return what the jobs of a cell add to a metric; None where there are none, and where the values of one are lost.

    Args:
        jobs: of each job its fine-tuning seed, its training seed (None where its encoder has none), and its values.
    """
    given_jobs = list(jobs)
    known = tuple(JobValues(seed, training or 0, values) for seed, training, values in given_jobs if values is not None)
    # All or nothing: a mean over the jobs whose outcomes are left would be of other examples than the number itself.
    return known if 0 < len(known) == len(given_jobs) else None


def mean_interval(cells: Sequence[Sequence[JobValues] | None], *, shares: bool = False) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of one encoder's cells, each of which is the mean of its values.

    None where a cell is not known or has no values, or where values do not vary and are no shares.

    Args:
        cells: the jobs of each cell, as `collect_job_values` returns them. Cells are of different tasks.
        shares: whether the metric is a share of examples. Where all values are 0 or 1, its interval is within 0..1.
    """
    parts = []
    for i, jobs in enumerate(cells):
        if jobs is None:
            return None
        trainings = sorted({job_values.training for job_values in jobs})
        rounds = [(job_values, trainings.index(job_values.training)) for job_values in jobs]
        # Each cell stands for a task of its own (`str(i)`), so that texts of different cells are never paired.
        parts.append(build_part(rounds, 1 / len(cells), str(i), ""))
    if not all(cell_part.values for cell_part in parts):
        return None
    values = [value for cell_part in parts for value in cell_part.values]
    # Means over raters or over seeds may lie between 0 and 1: then the interval is one of a mean, not of a share.
    counted = shares and all(value in (0.0, 1.0) for value in values)
    estimate = combine_cells(parts, n=len(values), bound=None, shares=counted)
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
