"""Summarises attacks for data frames: one row a sample that was attacked, with n, ASR, its interval and queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rbench.score import Tally
from rbench.tables.aggregate import grid
from rbench.tables.results import Results
from rbench.tables.table import Number

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("encoder", "finetune", "task", "attack", "train_seed", "seed")
_SHOWN = ("clean", "aua", "queries", "perturbed")
MEASURED = ("n", "asr", "asr_low", "asr_high", *_SHOWN, "succeeded", "failed", "skipped", "errored")
_SHARES = ("asr", "asr_low", "asr_high", "clean", "aua", "perturbed")


def measures(tally: Tally) -> dict[str, Any]:
    """Return what MEASURED names of one attacked sample. Shares are in 0..1, and None where nothing was attacked."""
    asr = tally.score("asr")
    found = {"n": asr.n, "asr": asr.value, "asr_low": asr.low, "asr_high": asr.high}
    found |= {metric: tally.score(metric).value for metric in _SHOWN}
    return found | {name: getattr(tally, name) for name in MEASURED[-4:]}


def frame_of(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> pd.DataFrame:
    """Make a frame of rows that have `names` and MEASURED. Column types do not depend on the rows."""
    import pandas as pd

    rows = list(rows)
    types = {"train_seed": "Int64", "seed": "int64", "n": "int64"}
    types |= dict.fromkeys(MEASURED[-4:], "int64") | dict.fromkeys(MEASURED[1:-4], "float64")
    columns = (*names, *MEASURED)
    return pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=types.get(name, "string")) for name in columns}
    )


def summary_frame(results: Results) -> pd.DataFrame:
    """Return one row for each attack of a RUN that is complete, in the order of its tables.

    Columns: encoder, finetune, task, attack, train_seed, seed, and those of MEASURED. `n` is the number of examples
    that were attacked, `asr_low` and `asr_high` are the ends of the 95% interval. A RUN without attacks gives an empty
    frame.
    """
    rows = []
    for cell in grid(results).cells.values() if results.plan.attacks else ():
        for run in cell.runs:
            if run.tally is not None:
                named = (cell.encoder, cell.finetune, cell.task, cell.attack, run.train_seed, run.job.seed)
                rows.append(dict(zip(NAMES, named, strict=True)) | measures(run.tally))
    return frame_of(rows, NAMES)


def for_people(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a summary as texts: shares in percent, the interval in one column, and no column that is always empty."""
    import pandas as pd

    def number(value: Any, percent: bool) -> str:
        return "–" if pd.isna(value) else Number(None, percent).shown(float(value))

    said = {name: summary[name].astype("string").fillna("") for name in summary.columns if name not in MEASURED}
    shown = pd.DataFrame({name: texts for name, texts in said.items() if (texts != "").any()}, index=summary.index)
    for name in MEASURED:
        if name == "asr_low":
            ends = zip(summary["asr_low"], summary["asr_high"], strict=True)
            shown["95% interval"] = [f"{number(low, True)} to {number(high, True)}" for low, high in ends]
        elif name in _SHARES or name == "queries":
            if name != "asr_high":
                heading = "ASR %" if name == "asr" else f"{name} %" if name in _SHARES else name
                shown[heading] = [number(value, name in _SHARES) for value in summary[name]]
        else:
            shown[name] = summary[name].astype("string")
    return shown


def markdown(shown: pd.DataFrame) -> str:
    """Return a frame of texts as a markdown table."""
    from tabulate import tabulate

    rows = [[str(value).replace("|", "\\|") for value in row] for row in shown.itertuples(index=False)]
    return tabulate(rows, headers=list(shown.columns), tablefmt="pipe", disable_numparse=True)
