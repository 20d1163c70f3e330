"""Read the results of a RUN: its tables, its figures, and its outcomes as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from rbench.api.figures import figure
from rbench.api.runs import Runs, reader_of, results_of
from rbench.errors import SuiteError
from rbench.load.measures import METRICS
from rbench.spec import Metric, Pick, TableSpec

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["figure", "load_results", "table"]


def table(
    run: Runs,
    *,
    metric: str = "asr",
    layout: str = "paper",
    fmt: str = "markdown",
    intervals: bool = False,
    pick: Pick | None = None,
    include: Sequence[Path] = (),
    **options: Any,
) -> str:
    """Compute a table from what a RUN stores and nothing else, and render it; see `rbench.tables.build`.

    Args:
        run: the folder of a RUN, or those of several that are read as one.
        metric: a metric, or the name of a measure, which may lie in one of the folders `include`.
        options: options of the measure; without any, those of the suite's table of this measure, or its defaults.

    Raises:
        SuiteError: the metric is unknown, or the measure has no such layout or option.
        StoreError: a folder is not a RUN or is damaged, several do not fit together, or there is nothing to show.
    """
    from rbench.api import tables
    from rbench.tables import build
    from rbench.tables.formats import render

    if metric in METRICS and not options:
        return render(build(results_of(run), cast(Metric, metric), layout, pick), fmt, intervals=intervals)
    try:
        wanted = TableSpec.model_validate({"metric": metric, "layout": layout, "pick": pick, "options": options})
    except ValidationError as error:
        said = "; ".join(str(one["msg"]).removeprefix("Value error, ") for one in error.errors(include_url=False))
        raise SuiteError(said) from error
    return render(tables.of_run(run, wanted, include), fmt, intervals=intervals)


def load_results(run: Runs) -> pd.DataFrame:
    """Return one row per attacked example: encoder, finetune, task, attack, seed, and all fields of its outcome.

    Several RUNs are read as one. Raises StoreError as `table` does.
    """
    from rbench.tables import results_frame

    return results_frame(reader_of(run))
