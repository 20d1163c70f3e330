"""Read the results of a RUN: its tables, its figures, and its outcomes as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from rbench.api.figures import figure
from rbench.api.runs import Runs, reader_of
from rbench.errors import SuiteError
from rbench.spec import Aggregation, Bold, FontSize, Notes, Pick, TableSpec

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
    aggregation: Aggregation = "all",
    bold: Bold | None = None,
    notes: Notes | None = None,
    names: bool = False,
    wide: bool = False,
    size: FontSize | None = None,
    include: Sequence[Path] = (),
    **options: Any,
) -> str:
    """Compute a table from what a RUN stores and nothing else, and render it; see `rbench.tables.build`.

    Args:
        run: the folder of a RUN, or those of several that are read as one.
        metric: a metric, or the name of a measure, which may lie in one of the folders `include`.
        aggregation: for `metric` sts, how the subsets of a set make one number: `all` pairs together, or the `mean` or
            `wmean` (weighted by pairs) of the subsets.
        bold: `significant` (the best entries and all that are not significantly worse), `best` or `none`. None:
            `significant` where entries can be tested, otherwise `best`.
        notes: what stands below: `none`, `short` (one paragraph; None means this) or `full`.
        names: whether encoders, tasks and attacks have the names that they have in commands, instead of titles.
        wide: LaTeX: whether the table spans both columns of an article.
        size: LaTeX: the size of its letters, such as `small`.
        options: options of the measure; without any, those of the suite's table of this measure, or its defaults.

    Raises:
        SuiteError: the metric is unknown, the measure has no such layout or option, or the table or its format cannot
            honour what is asked.
        StoreError: a folder is not a RUN or is damaged, several do not fit together, or there is nothing to show.
    """
    from rbench.api import tables
    from rbench.tables.formats import unknown
    from rbench.tables.table import Layout

    asked = {"metric": metric, "layout": layout, "pick": pick, "aggregation": aggregation, "bold": bold}
    if layout not in get_args(Layout):
        raise unknown("layout", layout, get_args(Layout))
    try:
        wanted = TableSpec.model_validate({**asked, "options": options})
    except ValidationError as error:
        said = "; ".join(str(one["msg"]).removeprefix("Value error, ") for one in error.errors(include_url=False))
        raise SuiteError(said) from error
    look = tables.TableLook(intervals, notes, names, wide, size)
    return tables.of_run(run, wanted, fmt, look, include)


def load_results(run: Runs) -> pd.DataFrame:
    """Return one row per attacked example: encoder, finetune, task, attack, seed, and all fields of its outcome.

    Several RUNs are read as one. Raises StoreError as `table` does.
    """
    from rbench.tables import results_frame

    return results_frame(reader_of(run))
