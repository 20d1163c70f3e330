"""Makes tables from a RUN: `build` lays out, `formats.render` makes text, `frame.results_frame` gives every example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from pydantic import ValidationError

from rbench.errors import RbenchError, StoreError
from rbench.schema import Aggregation, Pick, TableSpec
from rbench.store.runs import Reader
from rbench.tables import any_attack, crossed
from rbench.tables import layouts as of_attacks
from rbench.tables.aggregate import grid
from rbench.tables.formats import unknown
from rbench.tables.results import Results
from rbench.tables.table import Layout, Table


def build(
    source: Reader | Results,
    metric: str = "asr",
    layout: str = "paper",
    pick: Pick | None = None,
    aggregation: Aggregation = "all",
    options: Mapping[str, Any] | None = None,
    beside: Sequence[str] = (),
) -> Table:
    """Build the table of a metric, or of a measure.

    Records are read, and outcomes for all attacks together and where a record does not have what a metric needs.

    Args:
        source: the RUN. To make several tables of one RUN, read it once with `Results.of(store)` and pass the result.
        metric: the metric that the table shows, or the name of a measure.
        layout: `paper`, `by-task`, `by-attack`, `means` or `full`; a measure has `paper`, and others that its file
            lists.
        pick: how to choose the best among strategies that differ in their learning rate alone. Only for contrast sets
            in the layout paper.
        aggregation: how the subsets of an STS set make one number.
        options: those of the measure.
        beside: more metrics, whose columns stand beside those of the metric.

    Raises:
        StoreError: the folder is not a RUN or is damaged, it has no jobs with this metric, or the layout is unknown; or
            a user's own measure raises an exception or returns no table.
        SuiteError: there is no such metric or measure.
    """
    _check_layout(layout)
    results = source if isinstance(source, Results) else Results.of(source)
    try:
        how: dict[str, Any] = {"pick": pick, "aggregation": aggregation, "beside": tuple(beside)}
        wanted = TableSpec(metric=metric, layout=cast(Layout, layout), **how)
    except ValidationError as error:
        raise StoreError("; ".join(str(one["msg"]) for one in error.errors(include_url=False))) from None
    if metric in results.metrics:
        return attack_table(results, metric, layout, beside)
    return _of_measure(results, wanted, options or {})


def _of_measure(results: Results, wanted: TableSpec, options: Mapping[str, Any]) -> Table:
    """Build the table of a measure. Raises as `build` does."""
    metric, layout = wanted.metric, wanted.layout
    measure = results.metrics.measure(metric)
    try:
        chosen = measure.Options.model_validate(options)
    except ValueError as error:  # those of an old plan may not fit the measure as it is now
        raise StoreError(f"the options of the measure do not fit it: {error}") from error
    layouts = measure.layouts
    if layout not in (layouts or ("paper",)):
        there = "the layouts paper and full" if layouts else "one layout"
        raise StoreError(f"the layout {layout} shows attacks; the table of {metric} has {there}")
    try:
        table = layouts[layout](results, wanted) if layouts else measure.table(chosen, results)
    except RbenchError:
        raise
    except Exception as error:
        if results.metrics.registry.is_bundled("measures", metric):
            raise
        from rbench.system.own_code import told

        raise StoreError(f"the measure {metric} raised {told(error, measure.path.parent)}") from error
    if not isinstance(table, Table):
        found = type(table).__name__
        raise StoreError(f"{measure.path}: `table` returned {found}, and a measure returns rbench.tables.Table")
    return table


def attack_table(
    source: Reader | Results, metric: str = "asr", layout: str = "paper", beside: Sequence[str] = ()
) -> Table:
    """Build the table of an attack metric. Raises StoreError as `build` does."""
    _check_layout(layout)
    results = source if isinstance(source, Results) else Results.of(source)
    of = results.metrics[metric]
    found = grid(results)
    worst = layout != "paper" or of.together or of.of == "all attacks"
    together = any_attack.any_attack(results, found) if worst else any_attack.NONE
    if beside or layout in crossed.LAYOUTS:
        return crossed.table(found, (metric, *beside), layout, together)
    return {"paper": of_attacks.paper, "by-task": of_attacks.by_task, "full": of_attacks.full}[layout](
        found, metric, together
    )


def _check_layout(layout: str) -> None:
    if layout not in get_args(Layout):
        raise unknown("layout", layout, get_args(Layout))


__all__ = ["Results", "Table", "attack_table", "build"]
