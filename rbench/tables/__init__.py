"""Makes tables from a RUN: `build` lays out, `formats.render` makes text, `results_frame` gives every example."""

from __future__ import annotations

from typing import cast, get_args

from rbench.errors import StoreError, SuiteError
from rbench.load.registry import unknown as no_name
from rbench.spec import TABLES, Aggregation, EvaluationMetric, Pick
from rbench.storage.runs import Reader
from rbench.tables import advsts, any_attack, contrast, evaluations, layouts, positives
from rbench.tables.aggregate import grid
from rbench.tables.by_task import by_task
from rbench.tables.formats import unknown
from rbench.tables.frame import results_frame
from rbench.tables.picked import picked
from rbench.tables.results import Results
from rbench.tables.table import Layout, Table


def build(
    source: Reader | Results,
    metric: str = "asr",
    layout: str = "paper",
    pick: Pick | None = None,
    aggregation: Aggregation = "all",
) -> Table:
    """Build the table of a metric, or one of `spec.TABLES`.

    Records are read, and outcomes for all attacks together and where a record does not have what a metric needs.

    Args:
        source: the RUN. To make several tables of one RUN, read it once with `Results.of(store)` and pass the result.
        metric: the metric that the table shows.
        layout: `paper`, `by-task` or `full`.
        pick: how to choose the best among strategies that differ in their learning rate alone. Only for contrast sets
            in the layout paper.
        aggregation: how the subsets of an STS set make one number.

    Raises:
        StoreError: the folder is not a RUN or is damaged, it has no jobs with this metric, or the layout is unknown.
        SuiteError: there is no such metric.
    """
    source = _read(source)
    if metric not in TABLES and metric not in source.metrics:
        raise SuiteError(no_name("metric", metric, (*TABLES, *source.metrics.names)))
    if pick is not None:
        return _picked(source, metric, layout, pick)
    if metric == "advsts":
        return similarity_table(source, layout)
    if metric in get_args(EvaluationMetric):
        return evaluation_table(source, cast(EvaluationMetric, metric), layout, aggregation)
    return attack_table(source, metric, layout)


def attack_table(source: Reader | Results, metric: str = "asr", layout: str = "paper") -> Table:
    """Build the table of an attack metric. Raises StoreError as `build` does."""
    _check_layout(layout)
    results = _read(source)
    of = results.metrics[metric]
    found = grid(results)
    worst = layout != "paper" or of.together or of.of == "all attacks"
    together = any_attack.any_attack(results, found) if worst else any_attack.NONE
    return {"paper": layouts.paper, "by-task": by_task, "full": layouts.full}[layout](found, metric, together)


def evaluation_table(
    source: Reader | Results,
    metric: EvaluationMetric = "sts",
    layout: str = "paper",
    aggregation: Aggregation = "all",
) -> Table:
    """Build the table of an evaluation metric. Raises StoreError as `build` does."""
    _check_layout(layout)
    if layout == "by-task":
        raise StoreError("the layout by-task shows attacks; evaluations have the layouts paper and full")
    results = _read(source)
    if metric == "positives":
        return {"paper": positives.paper, "full": positives.full}[layout](results)
    if metric == "contrast":
        return {"paper": contrast.paper, "full": contrast.full}[layout](contrast.contrasts(results))
    return {"paper": evaluations.paper, "full": evaluations.full}[layout](evaluations.evaluated(results, aggregation))


def similarity_table(source: Reader | Results, layout: str = "paper") -> Table:
    """Build the table of attacks on STS tasks. Raises StoreError as `build` does."""
    _check_layout(layout)
    if layout == "by-task":
        raise StoreError("the table of adversarial STS has the layouts paper and full")
    return {"paper": advsts.paper, "full": advsts.full}[layout](grid(_read(source)))


def _picked(source: Reader | Results, metric: str, layout: str, pick: Pick) -> Table:
    if pick not in get_args(Pick):
        raise unknown("way to pick", pick, get_args(Pick))
    if metric != "contrast" or layout != "paper":
        raise StoreError("learning rates are picked in tables of contrast sets in the layout paper: --metric contrast")
    return contrast.paper(picked(contrast.contrasts(_read(source)), pick))


def _read(source: Reader | Results) -> Results:
    return source if isinstance(source, Results) else Results.of(source)


def _check_layout(layout: str) -> None:
    if layout not in get_args(Layout):
        raise unknown("layout", layout, get_args(Layout))


__all__ = ["Results", "Table", "attack_table", "build", "evaluation_table", "results_frame", "similarity_table"]
