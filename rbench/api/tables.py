"""Make any table of a RUN: of a built-in metric, or of a measure that is found by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rbench.errors import StoreError
from rbench.load.code import Module
from rbench.load.measures import find_measure
from rbench.load.registry import Registry
from rbench.spec import Metric, TableSpec

if TYPE_CHECKING:
    from rbench.api.runs import Runs
    from rbench.tables import Results, Table


def of_run(run: Runs, wanted: TableSpec, include: Sequence[Path] = ()) -> Table:
    """Make one table of a RUN, or of several as one.

    Where `wanted` sets no options, a measure has those of the first table of the RUN's suite that shows it.

    Raises SuiteError for an unknown metric or wrong options, and StoreError where the RUN has nothing to show.
    """
    measure = find_measure(wanted.metric, Registry(include))
    from rbench.api.runs import results_of

    results = results_of(run)
    if measure is not None and not wanted.options:
        asked = (table for table in results.plan.suite.tables if table.metric == wanted.metric)
        wanted = next(asked, wanted)
    return made(results, wanted, measure)


def made(results: Results, wanted: TableSpec, measure: Module | None) -> Table:
    """Make one table; `measure` is None for a built-in metric. Raises as `of_run` does."""
    from rbench.tables import build

    if measure is None:
        return build(results, cast(Metric, wanted.metric), wanted.layout, wanted.pick)
    module: Any = measure.open()
    table: Table = module.table(_options(module, wanted.options), results)
    return table


def _options(module: Any, options: Mapping[str, Any]) -> Any:
    """Make a measure's options. Raises StoreError where those of an old plan do not fit the measure as it is now."""
    try:
        return module.Options.model_validate(options)
    except ValueError as error:
        raise StoreError(f"the options of the measure do not fit it: {error}") from error
