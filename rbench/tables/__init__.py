"""Makes tables from a RUN: `build` lays out, `formats.render` makes text, `results_frame` gives every example."""

from __future__ import annotations

from typing import get_args

from rbench.errors import StoreError
from rbench.score import METRICS
from rbench.spec import Aggregation, AttackMetric, EvaluationMetric, Metric, Pick
from rbench.storage.runs import Reader
from rbench.tables import advsts, any_attack, contrast, evaluations, layouts, positives
from rbench.tables.aggregate import Results, grid
from rbench.tables.by_task import by_task
from rbench.tables.formats import unknown
from rbench.tables.frame import results_frame
from rbench.tables.picked import picked
from rbench.tables.table import Layout, Table


def build(
    source: Reader | Results,
    metric: Metric = "asr",
    layout: str = "paper",
    pick: Pick | None = None,
    aggregation: Aggregation = "all",
) -> Table:
    """Build the table of one metric of attacks or evaluations. Records are read, and outcomes for `any_attack`.

    Args:
        source: the RUN. To make several tables of one RUN, read it once with `Results.of(store)` and pass the result.
        metric: the metric that the table shows.
        layout: `paper`, `by-task` or `full`.
        pick: how to choose the best among strategies that differ in their learning rate alone. Only for contrast sets
            in the layout paper.
        aggregation: how the subsets of an STS set make one number.

    Raises:
        StoreError: the folder is not a RUN or is damaged, it has no jobs with this metric, or the metric or layout is
            unknown.
    """
    if metric not in get_args(Metric):
        raise unknown("metric", metric, get_args(Metric))
    if pick is not None:
        return _picked(source, metric, layout, pick)
    if metric == "advsts":
        return similarity_table(source, layout)
    if metric == "sts" or metric == "contrast" or metric == "positives":
        return evaluation_table(source, metric, layout, aggregation)
    return attack_table(source, metric, layout)


def attack_table(source: Reader | Results, metric: AttackMetric = "asr", layout: str = "paper") -> Table:
    """Build the table of an attack metric. Raises StoreError as `build` does."""
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    _check_layout(layout)
    results = _read(source)
    found = grid(results)
    together = (
        any_attack.any_attack(results, found) if layout != "paper" or metric in any_attack.METRICS else any_attack.NONE
    )
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
    return {"paper": evaluations.paper, "full": evaluations.full}[layout](
        evaluations.evaluated(results, aggregation), metric
    )


def similarity_table(source: Reader | Results, layout: str = "paper") -> Table:
    """Build the table of attacks on STS tasks. Raises StoreError as `build` does."""
    _check_layout(layout)
    if layout == "by-task":
        raise StoreError("the table of adversarial STS has the layouts paper and full")
    return {"paper": advsts.paper, "full": advsts.full}[layout](grid(_read(source)))


def _picked(source: Reader | Results, metric: Metric, layout: str, pick: Pick) -> Table:
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
