"""Reads a RUN into data frames, so that users can compute their own statistics: all outcomes, and a row an attack."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rbench.errors import StoreError
from rbench.schema import Draw, Job, Outcome
from rbench.score import Tally
from rbench.store.runs import RunReader, StoredRecord, read_columns
from rbench.tables.aggregate import attack_grid
from rbench.tables.flags import Flags, join_flags
from rbench.tables.results import Results, load_plan
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
_RUN_COLUMNS = ("encoder", "finetune", "task", "train_seed", "flags", "gold", "original_score", "perturbed_score")
NAMES = ("encoder", "finetune", "task", "attack", "train_seed", "seed")
_SHOWN = ("clean", "aua", "queries", "perturbed")
MEASURED = ("n", "asr", "asr_low", "asr_high", *_SHOWN, "succeeded", "failed", "skipped", "errored")
_SHARES = ("asr", "asr_low", "asr_high", "clean", "aua", "perturbed")


def results_frame(store: RunReader) -> pd.DataFrame:
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

    plan = load_plan(store)
    jobs = [job for job in plan.jobs if job.attacking is not None and job.attacking.split == "test"]
    stored_records = {job.key: store.look(job) for job in plan.jobs if job.has_health}
    flags = Flags(
        plan, {key: stored.record for key, stored in stored_records.items() if stored.record is not None}, store
    )
    columns = (_job_columns(store, job, plan.draw(job.parts[0]), stored_records[job.key], flags) for job in jobs)
    # The empty frame first: a RUN without outcomes has all columns, too.
    return pd.concat([_typed_frame({}), *_frames_of_columns(columns)], ignore_index=True)


def _frames_of_columns(jobs: Iterable[Mapping[str, list[Any]]]) -> Iterator[pd.DataFrame]:
    """Yield frames of the columns of jobs: one of few rows costs as much as one of thousands."""
    held: dict[str, list[Any]] = {}
    for columns in jobs:
        for name, values in columns.items():
            held.setdefault(name, []).extend(values)
        if len(held["seed"]) >= HELD:
            yield _typed_frame(held)
            held = {}
    if held and held["seed"]:
        yield _typed_frame(held)


def _job_columns(store: RunReader, job: Job, draw: Draw, stored: StoredRecord, flags: Flags) -> dict[str, list[Any]]:
    """Return the columns of one attack job, and log what is wrong with its outcomes."""
    spec = job.attacking
    assert spec is not None
    _, _, finetune, attack = job.parts
    names = {"encoder": draw.encoder, "train_seed": draw.train_seed, "finetune": finetune, "task": spec.task.name}
    names |= {"attack": attack, "seed": job.seed, "flags": join_flags(flags.told([job]))}
    return _fields_by_column(_read_outcome_fields(store, job, stored), spec.task.columns, names)


def _read_outcome_fields(store: RunReader, job: Job, stored: StoredRecord) -> Sequence[Sequence[Any]]:
    """Return the fields of a job's outcomes, and log what is wrong with them."""
    if stored.record is not None and stored.record.outcomes is not None:
        try:
            return read_columns(store, job, stored.record, _FIELDS)
        except StoreError as error:  # the record contradicts itself: then each line is looked at
            log.warning("%s", error)
    stored_outcomes = store.read(job)
    if (problem := stored.problem or stored_outcomes.damage) is not None:
        log.warning("%s", problem)
    elif not stored_outcomes.outcomes and stored.record is not None and stored.record.status == "complete":
        log.warning("the RUN keeps no outcomes of %s", job.name)
    return _outcome_fields(stored_outcomes.outcomes)


def outcomes_frame(outcomes: Sequence[Outcome], columns: Sequence[str], names: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row for each outcome of one attack on texts with classes: `names`, and the fields of Outcome.

    The columns are those of `results_frame`, without those of RUNs and of STS tasks.

    Args:
        columns: the names of the task's columns.
        names: values that all rows have, by column, such as the victim's name.
    """
    values = _fields_by_column(_outcome_fields(outcomes), columns, names)
    column_names = [*names, *(name for name in _DTYPES if name not in names and name not in _RUN_COLUMNS)]
    return _typed_frame(values, {name: _DTYPES.get(name, "string") for name in column_names})


def _outcome_fields(outcomes: Sequence[Outcome]) -> list[list[Any]]:
    """Return the fields of outcomes as JSON has them, as `read_columns` does."""
    return [list(outcome.model_dump(mode="json").values()) for outcome in outcomes]


def _fields_by_column(
    values: Sequence[Sequence[Any]], columns: Sequence[str], names: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Return all fields of outcomes by column, and `names`, which all rows share."""
    by_column = {name: [row[index] for row in values] for index, name in enumerate(_FIELDS)}
    for name in _TEXTS:
        texts = by_column[name]
        by_column[name] = [None if column_texts is None else "\n".join(column_texts) for column_texts in texts]
        by_column[f"{name}_columns"] = [
            None if column_texts is None else _texts_by_column(columns, column_texts) for column_texts in texts
        ]
    by_column["steps"] = [None if steps is None else _COMPACT.encode(steps) for steps in by_column["steps"]]
    return by_column | {name: [value] * len(values) for name, value in names.items()}


def _typed_frame(columns: Mapping[str, list[Any]], dtypes: Mapping[str, str] = _DTYPES) -> pd.DataFrame:
    """Make a typed frame from values by column. Missing columns are empty."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series(columns.get(name, []), dtype=dtype) for name, dtype in dtypes.items()})


def _texts_by_column(columns: Sequence[str], texts: Sequence[str]) -> str:
    return _JSON.encode(dict(zip(columns, texts, strict=True)))


def summarise(tally: Tally) -> dict[str, Any]:
    """Return what MEASURED names of one attacked sample. Shares are in 0..1, and None where nothing was attacked."""
    asr = tally.score("asr")
    fields = {"n": asr.n, "asr": asr.value, "asr_low": asr.low, "asr_high": asr.high}
    fields |= {metric: tally.score(metric).value for metric in _SHOWN}
    return fields | {name: getattr(tally, name) for name in MEASURED[-4:]}


def summary_rows_frame(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> pd.DataFrame:
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
    for cell in attack_grid(results).cells.values() if results.plan.attacks else ():
        for run in cell.runs:
            if run.tally is not None:
                cell_names = (cell.encoder, cell.finetune, cell.task, cell.attack, run.train_seed, run.job.seed)
                rows.append(dict(zip(NAMES, cell_names, strict=True)) | summarise(run.tally))
    return summary_rows_frame(rows, NAMES)


def format_summary(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a summary as texts: shares in percent, the interval in one column, and no column that is always empty."""
    import pandas as pd

    def number(value: Any, percent: bool) -> str:
        return "–" if pd.isna(value) else Number(None, percent).shown(float(value))

    name_columns = {name: summary[name].astype("string").fillna("") for name in summary.columns if name not in MEASURED}
    shown = pd.DataFrame(
        {name: texts for name, texts in name_columns.items() if (texts != "").any()}, index=summary.index
    )
    for name in MEASURED:
        if name == "asr_low":
            limits = zip(summary["asr_low"], summary["asr_high"], strict=True)
            shown["95% interval"] = [f"{number(low, True)} to {number(high, True)}" for low, high in limits]
        elif name == "asr_high":
            continue  # it stands in the interval
        elif name in _SHARES:
            heading = "ASR %" if name == "asr" else f"{name} %"
            shown[heading] = [number(value, True) for value in summary[name]]
        elif name == "queries":
            shown[name] = [number(value, False) for value in summary[name]]
        else:
            shown[name] = summary[name].astype("string")
    return shown


def render_markdown(shown: pd.DataFrame) -> str:
    """Return a frame of texts as a markdown table."""
    from tabulate import tabulate

    rows = [[str(value).replace("|", "\\|") for value in row] for row in shown.itertuples(index=False)]
    return tabulate(rows, headers=list(shown.columns), tablefmt="pipe", disable_numparse=True)
