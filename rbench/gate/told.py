"""Numbers that people gave, in the form in which a baseline keeps them: what each rater accepts, example by example."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.gate.raters import Told
from rbench.metrics import Metric, Observations, by_unit
from rbench.tables import Results
from rbench.tables.results import Run

COLUMNS = ("seen", "kept", "seen_in_original")
"""What such a metric may read of people's answers. All are the shares that `Metric.judged` says."""


class ByRater(NamedTuple):
    """The values of a job's examples, and the same by the answers of each rater alone."""

    values: dict[str, float]
    by_rater: dict[str, dict[str, float]]
    judged: int


def accepted(results: Results, run: Run, metric: Metric) -> dict[str, dict[str, float]]:
    """Return by metric and rater whether each example that a rater judged is accepted, 1 or 0.

    Raises StoreError where nobody judged the RUN.
    """
    said = results.judged
    if said is None or not metric.of_people:
        raise StoreError(f"{results.root} is not judged, so it has no {metric.name}: rbench judge export")
    found = {}
    for who in said.raters:
        of = results.observations(run.job, who)
        pairs = zip(of.unit.tolist(), metric.judged(of).tolist(), strict=True)
        found[f"{metric.name}@{said.sheet.id}/{who}"] = {unit: x for unit, x in pairs if not math.isnan(x)}
    return found


def read(metric: Metric, columns: Mapping[str, Sequence[object]], kept: Mapping[str, str]) -> ByRater | None:
    """Return the values of a metric from what a baseline keeps; None where it keeps none.

    Args:
        columns: of the examples, `example_id`, `status` and `skip_reason`.
        kept: by metric and rater 1, 0 or - for each example.
    """
    own = {name: _numbers(bits) for name, bits in kept.items() if name.startswith(f"{metric.name}@")}
    if not own:
        return None
    every = np.stack([*own.values()])
    there = ~np.isnan(every)
    shares = np.where(there.any(axis=0), np.nansum(every, axis=0) / np.maximum(there.sum(axis=0), 1), np.nan)
    by_rater = {name.partition("@")[2]: by_unit(metric, _observed(columns, bits)) for name, bits in own.items()}
    return ByRater(by_unit(metric, _observed(columns, shares)), by_rater, int(there.any(axis=0).sum()))


def _numbers(bits: str) -> NDArray[np.float64]:
    return np.array([np.nan if bit == "-" else float(bit) for bit in bits])


def _observed(columns: Mapping[str, Sequence[object]], shares: NDArray[np.float64]) -> Observations:
    made = {name: np.array(own, dtype=object) for name, own in columns.items()}
    return Observations({**made, **dict.fromkeys(COLUMNS, shares)}, asked=True)


def told(names: Sequence[str], jobs: Sequence[ByRater]) -> Told:
    """Return the values of a run's jobs (columns) as arrays over examples (rows)."""
    people = dict.fromkeys(who for job in jobs for who in job.by_rater)
    return Told(
        _array(names, [job.values for job in jobs]),
        {who: _array(names, [job.by_rater.get(who, {}) for job in jobs]) for who in people},
        sum(job.judged for job in jobs),
    )


def _array(names: Sequence[str], columns: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
    rows = [[own.get(name, np.nan) for own in columns] for name in names]
    return np.array(rows, dtype=np.float64).reshape(len(names), len(columns))
