"""All outcomes of a RUN as one data frame, for those who want to count for themselves."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from rbench.spec import AttackJob, Outcome
from rbench.storage.runs import Store
from rbench.tables.aggregate import plan_of

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("rbench")

_TEXTS = ("original", "perturbed")
_DTYPES = {
    "encoder": "string",
    "finetune": "string",
    "task": "string",
    "attack": "string",
    "seed": "int64",
    "example_id": "string",
    "status": "string",
    "skip_reason": "string",
    "original": "string",
    "perturbed": "string",
    "original_columns": "string",
    "perturbed_columns": "string",
    "label": "int64",
    "original_prediction": "Int64",
    "perturbed_prediction": "Int64",
    "num_queries": "int64",
    "num_words": "int64",
    "num_words_changed": "int64",
    "perturbed_share": "float64",
    "similarity": "float64",
    "oracle_label": "Int64",
    "truncated": "bool",
    "seconds": "float64",
    "error": "string",
}


def results_frame(store: Store) -> pd.DataFrame:
    """One row an attacked example of the plan's attack jobs, finished or under way, in the plan's order.

    Columns: encoder, finetune, task, attack, seed, and the fields of Outcome. `original` and `perturbed` are the texts
    with one line a column; `original_columns` and `perturbed_columns` the same as a JSON object by column name. The
    types of the columns do not depend on what is there; a RUN without outcomes gives an empty frame with all columns,
    one without texts has none in theirs. Of a job whose outcomes are not those that its record is of, or are damaged,
    the sound ones are there, and a warning in the log says so. Raises StoreError where the folder is not a RUN.
    """
    import pandas as pd  # a third of a second, which `rbench table` need not pay

    rows = []
    for job in plan_of(store).jobs:
        if isinstance(job.spec, AttackJob) and job.spec.split == "test":
            read = store.read(job)
            if (wrong := store.look(job).problem or read.damage) is not None:
                log.warning("%s", wrong)
            attack, finetune = job.parts[-1], job.parts[2]
            rows += [_row(job.spec, attack, finetune, job.seed, outcome) for outcome in read.outcomes]
    return pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)


def _row(spec: AttackJob, attack: str, finetune: str, seed: int, outcome: Outcome) -> dict[str, Any]:
    row = {
        "encoder": spec.encoder,
        "finetune": finetune,
        "task": spec.task.name,
        "attack": attack,
        "seed": seed,
        **outcome.model_dump(),
    }
    for field in _TEXTS:
        texts = row[field]
        named = None if texts is None else dict(zip(spec.task.columns, texts, strict=True))
        row[field] = None if texts is None else "\n".join(texts)
        row[f"{field}_columns"] = None if named is None else json.dumps(named, ensure_ascii=False)
    return row
