"""Finds the measures behind `tables:` and `rbench table --metric NAME`, and checks their options.

A table's metric is a name of `spec.Metric`, which rbench computes for every RUN, or the name of a measure. A metric
hides a measure of its name.
"""

from __future__ import annotations

from typing import get_args

from rbench.errors import SuiteError
from rbench.load.choices import items
from rbench.load.code import Module, find
from rbench.load.modules import Modules, checked
from rbench.load.positions import Positioned, Problems
from rbench.load.registry import Registry, unknown
from rbench.spec import Metric, TableSpec

METRICS: tuple[str, ...] = get_args(Metric)


def find_measure(metric: str, registry: Registry) -> Module | None:
    """Return the measure of this name, or None for a built-in metric.

    Raises SuiteError where there is neither, with the nearest names, or where the module is wrong.
    """
    if metric in METRICS:
        return None
    names = registry.names("measures")
    if metric not in names:
        raise SuiteError(unknown("metric", metric, {*METRICS, *names}))
    found = find("measures", metric, registry)
    checked(found)
    return found


def check_tables(merged: Positioned, modules: Modules, problems: Problems) -> None:
    """Add a problem for each table whose metric is unknown, and for options that its measure does not have."""
    names = modules.registry.names("measures")
    for table in items(merged, "tables"):
        metric = table.data.get("metric") if isinstance(table.data, dict) else None
        if not isinstance(metric, str) or metric in METRICS:
            continue
        place = table.at(("metric",))
        if metric not in names:
            problems.add(place, unknown("metric", metric, {*METRICS, *names}))
            continue
        if isinstance(table.data.get("options"), dict):
            modules.check("measures", metric, place, table.sub("options"))
        else:
            modules.check("measures", metric, place, table.only({*table.data} - {*TableSpec.model_fields}))
