"""Makes tables from a RUN: `build` lays out, `formats.render` makes text, `frame.results_frame` gives every example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

from rbench.errors import StoreError
from rbench.schema import Aggregation, Pick, TableSpec
from rbench.store.runs import RunReader
from rbench.system.own_code import failing_in
from rbench.tables import any_attack, crossed
from rbench.tables import layouts as of_attacks
from rbench.tables.aggregate import attack_grid
from rbench.tables.results import Results
from rbench.tables.table import Layout, Table


def build(
    source: RunReader | Results,
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
        StoreError: the folder is not a RUN or is damaged, the table would have no rows, or the layout is unknown; or a
            user's own measure raises an exception or returns no table.
        SuiteError: there is no such metric or measure.
    """
    results = source if isinstance(source, Results) else Results.of(source)
    choices: dict[str, Any] = {"pick": pick, "aggregation": aggregation, "beside": tuple(beside)}
    with failing_in(f"the table {metric}", StoreError):
        table_spec = TableSpec(metric=metric, layout=cast(Layout, layout), **choices)
    if metric in results.metrics:
        return build_attack_table(results, metric, layout, beside)
    return _build_measure_table(results, table_spec, options or {})


def _build_measure_table(results: Results, table_spec: TableSpec, options: Mapping[str, Any]) -> Table:
    """Build the table of a measure. Raises as `build` does."""
    metric, layout = table_spec.metric, table_spec.layout
    measure = results.metrics.measure(metric)
    with failing_in(f"the options of the measure {metric}", StoreError):  # those of an old plan may not fit it any more
        valid_options = measure.Options.model_validate(options)
    layouts = measure.layouts
    # A mistake of rbench's own needs its traceback.
    bundled = results.metrics.registry.is_bundled("measures", metric)
    with nullcontext() if bundled else failing_in(f"the measure {metric}", StoreError):
        table: Table = layouts[layout](results, table_spec) if layouts else measure.table(valid_options, results)
        has_rows = bool(table.rows)
    if not has_rows:
        raise StoreError(
            f"{results.root} has nothing to show in the table {metric}: nothing that it is made of is done, or suite "
            f"{results.plan.suite.name} does not ask for it. rbench list measures {metric} says what it shows"
        )
    return table


def build_attack_table(
    source: RunReader | Results, metric: str = "asr", layout: str = "paper", beside: Sequence[str] = ()
) -> Table:
    """Build the table of an attack metric. Raises StoreError as `build` does."""
    results = source if isinstance(source, Results) else Results.of(source)
    shown_metric = results.metrics[metric]
    attack_cells = attack_grid(results)
    # Why not always: counting over all attacks reads every outcome file of the RUN, and the layout paper of a single
    # attack's metric has no row for it.
    needs_any_attack = layout != "paper" or shown_metric.together or shown_metric.of == "all attacks"
    any_attack_cells = any_attack.build_any_attack_cells(results, attack_cells) if needs_any_attack else any_attack.NONE
    if beside or layout in crossed.LAYOUTS:
        return crossed.build_crossed_table(attack_cells, (metric, *beside), layout, any_attack_cells)
    builders = {
        "paper": of_attacks.build_paper_table,
        "by-task": of_attacks.build_by_task_table,
        "full": of_attacks.build_full_table,
    }
    return builders[layout](attack_cells, metric, any_attack_cells)


__all__ = ["Results", "Table", "build", "build_attack_table"]
