"""Tables from a RUN: `attack_table` lays out, `formats.render` writes down, `results_frame` gives every example."""

from __future__ import annotations

from typing import get_args

from rbench.score import METRICS
from rbench.spec import Metric
from rbench.store import Store
from rbench.tables import layouts
from rbench.tables.aggregate import grid
from rbench.tables.formats import unknown
from rbench.tables.frame import results_frame
from rbench.tables.table import Layout, Table


def attack_table(store: Store, metric: Metric = "asr", layout: str = "paper") -> Table:
    """The table of one metric, from the records of a RUN and from nothing else.

    Raises StoreError where the folder is not a RUN, holds no attacks, is damaged, or the metric or layout is unknown.
    """
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    if layout not in get_args(Layout):
        raise unknown("layout", layout, get_args(Layout))
    return {"paper": layouts.paper, "full": layouts.full}[layout](grid(store), metric)


__all__ = ["Table", "attack_table", "results_frame"]
