"""Reads a RUN into data frames, so that users can compute their own statistics: all outcomes, and a row an attack."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rbench.errors import StoreError
from rbench.schema import Draw, Job, Outcome
from rbench.score import Tally
from rbench.store.runs import Found, Reader, read_fields
from rbench.tables.aggregate import grid
from rbench.tables.flags import Flags, shown
from rbench.tables.results import Results, plan_of
from rbench.tables.table import Number

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger("rbench")

_TEXTS = ("original", "perturbed")
_FIELDS = tuple(Outcome.model_fields)
_JSON = json.JSONEncoder(ensure_ascii=False)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DTYPES = {
    "encoder": "string",
    "finetune": "string",
    "task": "string",
    "attack": "string",
    "seed": "int64",
    "train_seed": "Int64",
    "example_id": "string",
    "status": "string",
    "skip_reason": "string",
    "original": "string",
    "perturbed": "string",
    "original_columns": "string",
    "perturbed_columns": "string",
    "label": "Int64",
    "original_prediction": "Int64",
    "perturbed_prediction": "Int64",
    "gold": "float64",
    "original_score": "float64",
    "perturbed_score": "float64",
    "num_queries": "int64",
    "num_words": "int64",
    "num_words_changed": "int64",
    "words_asked": "Int64",
    "words_without_candidate": "Int64",
    "robust_words": "Int64",
    "texts_left": "Int64",
    "perturbed_share": "float64",
    "similarity": "float64",
    "steps": "string",
    "oracle_label": "Int64",
    "truncated": "bool",
    "seconds": "float64",
    "error": "string",
    "flags": "string",
}
HELD = 4000
"""Rows that are held as lists before they become a frame."""
_OF_RUNS = ("encoder", "finetune", "task", "train_seed", "flags", "gold", "original_score", "perturbed_score")
NAMES = ("encoder", "finetune", "task", "attack", "train_seed", "seed")
_SHOWN = ("clean", "aua", "queries", "perturbed")
MEASURED = ("n", "asr", "asr_low", "asr_high", *_SHOWN, "succeeded", "failed", "skipped", "errored")
_SHARES = ("asr", "asr_low", "asr_high", "clean", "aua", "perturbed")


def results_frame(store: Reader) -> pd.DataFrame:
    """Return one row per attacked example of the plan's attack jobs, finished or under way, in the plan's order.

    Columns: encoder, finetune, task, attack, seed, train_seed (missing where the suite has no `train_seeds`, or rbench
    does not train the encoder), the fields of Outcome, and `flags`. `original` and `perturbed` hold the texts with one
    line per text column. `original_columns` and `perturbed_columns` hold them as a JSON object by column name. `flags`
    holds those of the attack and of what it stands on, joined by `; `, or `none`; it is missing where no flag is known
    and a record has no health. Column types do not depend on the data. A RUN without outcomes gives an empty frame with
    all columns. In a RUN without texts the text columns are missing values. Where a job's outcomes are damaged or do
    not match its record, the frame has the undamaged ones, and the log has a warning. Raises StoreError where the
    folder is not a RUN.

    `steps` holds the steps of the attack as a JSON array; it is missing where an outcome has none.

    Outcomes become columns once there are a few thousand of them, so memory holds the frame and few jobs. Outcomes that
    match the digest in their record are taken as they were written, without a check of each line.
    """
    import pandas as pd  # imported here because it takes a third of a second, and `rbench table` does not need it

    plan = plan_of(store)
    jobs = [job for job in plan.jobs if job.attacking is not None and job.attacking.split == "test"]
    looked = {job.key: store.look(job) for job in plan.jobs if job.has_health}
    flags = Flags(plan, {key: found.record for key, found in looked.items() if found.record is not None}, store)
    found = (_rows(store, job, plan.draw(job.parts[0]), looked[job.key], flags) for job in jobs)
    return pd.concat([_frame({}), *_frames(found)], ignore_index=True)


def _frames(jobs: Iterable[Mapping[str, list[Any]]]) -> Iterator[pd.DataFrame]:
    """Yield frames of the columns of jobs: one of few rows costs as much as one of thousands."""
    held: dict[str, list[Any]] = {}
    for columns in jobs:
        for name, values in columns.items():
            held.setdefault(name, []).extend(values)
        if len(held["seed"]) >= HELD:
            yield _frame(held)
            held = {}
    if held and held["seed"]:
        yield _frame(held)


def _rows(store: Reader, job: Job, draw: Draw, found: Found, flags: Flags) -> dict[str, list[Any]]:
    """Return the columns of one attack job, and log what is wrong with its outcomes."""
    spec = job.attacking
    assert spec is not None
    _, _, finetune, attack = job.parts
    names = {"encoder": draw.encoder, "train_seed": draw.train_seed, "finetune": finetune, "task": spec.task.name}
    names |= {"attack": attack, "seed": job.seed, "flags": shown(flags.told([job]))}
    return _columns(_outcomes(store, job, found), spec.task.columns, names)


def _outcomes(store: Reader, job: Job, found: Found) -> Sequence[Sequence[Any]]:
    """Return the fields of a job's outcomes, and log what is wrong with them."""
    if found.record is not None and found.record.outcomes is not None:
        try:
            return read_fields(store, job, found.record, _FIELDS)
        except StoreError as error:  # the record contradicts itself: then each line is looked at
            log.warning("%s", error)
    read = store.read(job)
    if (wrong := found.problem or read.damage) is not None:
        log.warning("%s", wrong)
    elif not read.outcomes and found.record is not None and found.record.status == "complete":
        log.warning("the RUN keeps no outcomes of %s", job.name)
    return _values(read.outcomes)


def outcomes_frame(outcomes: Sequence[Outcome], columns: Sequence[str], names: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row for each outcome of one attack on texts with classes: `names`, and the fields of Outcome.

    The columns are those of `results_frame`, without those of RUNs and of STS tasks.

    Args:
        columns: the names of the task's columns.
        names: values that all rows have, by column, such as the victim's name.
    """
    found = _columns(_values(outcomes), columns, names)
    wanted = [*names, *(name for name in _DTYPES if name not in names and name not in _OF_RUNS)]
    return _frame(found, {name: _DTYPES.get(name, "string") for name in wanted})


def _values(outcomes: Sequence[Outcome]) -> list[list[Any]]:
    """Return the fields of outcomes as JSON has them, as `read_fields` does."""
    return [list(outcome.model_dump(mode="json").values()) for outcome in outcomes]


def _columns(values: Sequence[Sequence[Any]], columns: Sequence[str], names: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return all fields of outcomes by column, and `names`, which all rows share."""
    found = {name: [row[place] for row in values] for place, name in enumerate(_FIELDS)}
    for name in _TEXTS:
        texts = found[name]
        found[name] = [None if one is None else "\n".join(one) for one in texts]
        found[f"{name}_columns"] = [None if one is None else _named(columns, one) for one in texts]
    found["steps"] = [None if steps is None else _COMPACT.encode(steps) for steps in found["steps"]]
    return found | {name: [value] * len(values) for name, value in names.items()}


def _frame(columns: Mapping[str, list[Any]], dtypes: Mapping[str, str] = _DTYPES) -> pd.DataFrame:
    """Make a typed frame from values by column. Missing columns are empty."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series(columns.get(name, []), dtype=dtype) for name, dtype in dtypes.items()})


def _named(columns: Sequence[str], texts: Sequence[str]) -> str:
    return _JSON.encode(dict(zip(columns, texts, strict=True)))


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
