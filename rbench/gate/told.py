"""Numbers that people gave, in the form in which a baseline keeps them: what each rater accepts, example by example."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.gate.raters import RaterScores
from rbench.metrics import Metric, Observations, by_unit
from rbench.tables import Results
from rbench.tables.results import SeedRun

PEOPLE_COLUMNS = ("seen", "kept", "seen_in_original")
"""What such a metric may read of people's answers. All are the shares that `Metric.judged` says."""


class JudgedValues(NamedTuple):
    """The values of a job's examples by the answers of all raters, and by those of each rater alone."""

    values: dict[str, float]
    by_rater: dict[str, dict[str, float]]
    judged: int


def accepted_by_rater(results: Results, run: SeedRun, metric: Metric) -> dict[str, dict[str, float]]:
    """Return by metric and rater whether each example that a rater judged is accepted, 1 or 0.

    Raises StoreError where nobody judged the RUN.
    """
    judgements = results.judged
    if judgements is None or not metric.of_people:
        raise StoreError(f"{results.root} is not judged, so it has no {metric.name}: rbench judge export")
    accepted_by_name = {}
    for rater in judgements.raters:
        observations = results.observations(run.job, rater)
        pairs = zip(observations.unit.tolist(), metric.judged(observations).tolist(), strict=True)
        accepted_by_name[f"{metric.name}@{judgements.sheet.id}/{rater}"] = {
            unit: accepts for unit, accepts in pairs if not math.isnan(accepts)
        }
    return accepted_by_name


def read_kept_values(
    metric: Metric, columns: Mapping[str, Sequence[object]], stored_bits: Mapping[str, str]
) -> JudgedValues | None:
    """Return the values of a metric from what a baseline keeps; None where it keeps none.

    Args:
        columns: of the examples, `example_id`, `status` and `skip_reason`.
        stored_bits: by metric and rater 1, 0 or - for each example.
    """
    bits_by_rater = {
        name: _bits_as_numbers(bits) for name, bits in stored_bits.items() if name.startswith(f"{metric.name}@")
    }
    if not bits_by_rater:
        return None
    all_bits = np.stack([*bits_by_rater.values()])
    has_answer = ~np.isnan(all_bits)
    # The share of raters who accept an example, over those who judged it; nan where none did.
    shares = np.where(
        has_answer.any(axis=0), np.nansum(all_bits, axis=0) / np.maximum(has_answer.sum(axis=0), 1), np.nan
    )
    by_rater = {
        name.partition("@")[2]: by_unit(metric, _as_observations(columns, bits)) for name, bits in bits_by_rater.items()
    }
    return JudgedValues(by_unit(metric, _as_observations(columns, shares)), by_rater, int(has_answer.any(axis=0).sum()))


def _bits_as_numbers(bits: str) -> NDArray[np.float64]:
    return np.array([np.nan if bit == "-" else float(bit) for bit in bits])


def _as_observations(columns: Mapping[str, Sequence[object]], shares: NDArray[np.float64]) -> Observations:
    arrays = {name: np.array(column_values, dtype=object) for name, column_values in columns.items()}
    return Observations({**arrays, **dict.fromkeys(PEOPLE_COLUMNS, shares)}, asked=True)


def rater_scores(names: Sequence[str], jobs: Sequence[JudgedValues]) -> RaterScores:
    """Return the values of a run's jobs (columns) as arrays over examples (rows)."""
    raters = dict.fromkeys(rater for job in jobs for rater in job.by_rater)
    return RaterScores(
        _values_array(names, [job.values for job in jobs]),
        {rater: _values_array(names, [job.by_rater.get(rater, {}) for job in jobs]) for rater in raters},
        sum(job.judged for job in jobs),
    )


def _values_array(names: Sequence[str], columns: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
    rows = [[column.get(name, np.nan) for column in columns] for name in names]
    return np.array(rows, dtype=np.float64).reshape(len(names), len(columns))
