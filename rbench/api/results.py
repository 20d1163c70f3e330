"""Read the results of a RUN: its tables, its figures, and its outcomes as a data frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rbench.api.figures import figure
from rbench.spec import Metric, Pick
from rbench.storage.runs import Store

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["figure", "load_results", "table"]


def table(
    run: Path,
    *,
    metric: Metric = "asr",
    layout: str = "paper",
    fmt: str = "markdown",
    intervals: bool = False,
    pick: Pick | None = None,
) -> str:
    """Compute a table from the records of a RUN and nothing else, and render it; see `rbench.tables.build`."""
    from rbench.tables import build
    from rbench.tables.formats import render

    return render(build(Store(run), metric, layout, pick), fmt, intervals=intervals)


def load_results(run: Path | str) -> pd.DataFrame:
    """Return one row per attacked example: encoder, finetune, task, attack, seed, and all fields of its outcome."""
    from rbench.tables import results_frame

    return results_frame(Store(Path(run)))
