"""Compute a metric of what was observed: the value of each unit, and their share or mean."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from rbench.config.metrics import Metric
from rbench.errors import RbenchError, SuiteError
from rbench.metrics._observations import Observations, Values
from rbench.score import Sample, Share


def values(metric: Metric, of: Observations) -> Values:
    """Return the value of each unit; NaN where it is in no denominator. That of a set is the mean of its units' values.

    Raises SuiteError where the metric's file is wrong: it raises an exception, returns other than a number for each
    unit, or values that it says there cannot be.
    """
    try:
        found = np.asarray(metric.value(of) if metric.units is None else _of_set(metric, of), dtype=np.float64)
    except RbenchError:
        raise
    except Exception as error:  # whatever a user's file may raise
        raise SuiteError(f"the metric {metric.name} raised {type(error).__name__}: {error}") from error
    if found.shape != (len(of),):
        said = f"an array of shape {found.shape} for {len(of)} units"
        raise SuiteError(f"the metric {metric.name} returned {said}: `value` returns a number for each unit")
    there = found[~np.isnan(found)]
    low, high = metric.bounds
    if metric.share and not np.isin(there, (0.0, 1.0)).all():
        raise SuiteError(f"the metric {metric.name} has SHARE = True, and values other than 0 and 1")
    told = there if metric.units is None or not len(there) else there.mean(keepdims=True)
    if len(told) and not (low <= told.min() and told.max() <= high):
        raise SuiteError(f"the metric {metric.name} has values outside its BOUNDS, {low:g} to {high:g}")
    return found


def _of_set(metric: Metric, of: Observations) -> Values:
    """Return what each unit adds to the value of the set, by the jackknife: pseudo-values (Tukey 1958), moved so that
    their mean is the value. Their standard deviation over the root of n is the value's standard error."""
    assert metric.units is not None
    inside = np.flatnonzero(metric.units(of))
    found = np.full(len(of), np.nan)
    whole = float(metric.value(of.at(inside))) if len(inside) else math.nan
    if not math.isnan(whole) and metric.influence is not None:
        added = metric.influence(of.at(inside))
        found[inside] = whole + added - added.mean()
    elif not math.isnan(whole):
        several = range(len(inside)) if len(inside) > 1 else ()
        without = np.array([metric.value(of.at(np.delete(inside, i))) for i in several] or [whole])
        added = (len(inside) - 1) * (whole - np.where(np.isnan(without), whole, without))
        found[inside] = whole + added - added.mean()
    return found


def by_unit(metric: Metric, of: Observations) -> dict[str, float]:
    """Return the values of the units that have one, by the unit's id."""
    found = values(metric, of)
    there = ~np.isnan(found)
    return dict(zip(of.unit[there].tolist(), found[there].tolist(), strict=True))


def pooled_values(metric: Metric, found: Iterable[float]) -> Share | Sample:
    """Return the share or the mean of some values."""
    numbers = list(found)
    return Share(round(sum(numbers)), len(numbers)) if metric.share else Sample.of(numbers)


def pooled(metric: Metric, parts: Iterable[Share | Sample]) -> Share | Sample:
    """Return the share or mean of the units of several samples together."""
    if metric.share:
        shares = [part for part in parts if isinstance(part, Share)]
        return Share(sum(part.hits for part in shares), sum(part.n for part in shares))
    return Sample.pooled(part for part in parts if isinstance(part, Sample))
