"""Writes outcomes as the CSV log of TextAttack, with the id of each example."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rbench.api.asked import path_of
from rbench.api.attack_result import AttackResult
from rbench.api.run_result import RunResult
from rbench.api.runs import Runs, results_of
from rbench.errors import PlanError, StoreError
from rbench.spec import Outcome
from rbench.system.changes import differing
from rbench.system.escaping import cell as escaped
from rbench.tables.aggregate import grid

COLUMNS = (
    "original_text",
    "perturbed_text",
    "original_score",
    "perturbed_score",
    "original_output",
    "perturbed_output",
    "ground_truth_output",
    "num_queries",
    "result_type",
)
"""The columns of TextAttack's CSVLogger, in its order."""
NAMES = ("encoder", "finetune", "task", "attack", "train_seed", "seed")
_TYPES = {"succeeded": "Successful", "failed": "Failed", "skipped": "Skipped", "errored": "Errored"}
_SPLIT = "<SPLIT>"
"""What stands between the columns of a text, as in TextAttack's log."""


def write_textattack_csv(results: Runs | RunResult | AttackResult, path: str | os.PathLike[str]) -> Path:
    """Write attacked examples as TextAttack's CSV log, and return its path.

    The columns are those of `textattack.loggers.CSVLogger`, and changed words stand in `[[...]]`. Marked are the words
    that `rbench.system.changes` counts, where TextAttack marks by position all words behind one that was split or
    deleted. Before them come
    `id`, the example's id, and for a RUN also encoder, finetune, task, attack, train_seed and seed. Scores are empty,
    because RUNs hold predictions and no probabilities. Text that a spreadsheet would take for a formula (`=1+1`) has an
    apostrophe before it. Examples on which the attack raised an exception have the result
    type Errored, which TextAttack does not log.

    Args:
        results: the folder of a RUN, or several, what `rbench.run` returned, or what `rbench.attack` returned.
        path: the file to write. Its folder must be there.

    Raises:
        StoreError: the folder is not a RUN, has no attacks, or holds no texts.
        PlanError: the file cannot be written.
    """
    names: tuple[str, ...] = ()
    rows: Iterator[dict[str, Any]]
    if isinstance(results, AttackResult):
        columns = results.task.columns
        rows = (_row(outcome, columns) for outcome in results.outcomes)
    else:
        names, rows = NAMES, _of_run(results.run if isinstance(results, RunResult) else results)
    where, kept = path_of("path", path).expanduser(), list(rows)
    try:
        with where.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ("id", *names, *COLUMNS), quoting=csv.QUOTE_NONNUMERIC)
            writer.writeheader()
            writer.writerows({name: escaped(value) for name, value in row.items()} for row in kept)
    except OSError as error:
        raise PlanError(f"{where} cannot be written: {error.strerror}") from error
    return where


def _of_run(runs: Runs) -> Iterator[dict[str, Any]]:
    results = results_of(runs)
    for cell in grid(results).cells.values():
        for run in cell.runs:
            assert run.job.attacking is not None
            named = (cell.encoder, cell.finetune, cell.task, cell.attack, run.train_seed, run.job.seed)
            outcomes = results.store.outcomes(run.job)
            if not outcomes and run.tally is not None and run.tally.total:
                raise StoreError(
                    f"{results.root} keeps no outcomes of {run.job.name}, and TextAttack's log is made of them"
                )
            for outcome in outcomes:
                if outcome.original is None:
                    raise StoreError(f"{results.root} holds no texts, and TextAttack's log consists of them")
                yield dict(zip(NAMES, named, strict=True)) | _row(outcome, run.spec.task.columns)


def _row(outcome: Outcome, columns: Sequence[str]) -> dict[str, Any]:
    before = outcome.original or ()
    after = before if outcome.perturbed is None else outcome.perturbed
    old, new = _marked(before, after)
    final = outcome.perturbed_prediction
    return {
        "id": outcome.example_id,
        "original_text": _joined(old, columns),
        "perturbed_text": "" if outcome.status == "errored" else _joined(new, columns),
        "original_score": None,
        "perturbed_score": None,
        "original_output": outcome.original_prediction,
        "perturbed_output": outcome.original_prediction if final is None else final,
        "ground_truth_output": outcome.label,
        "num_queries": outcome.num_queries,
        "result_type": _TYPES[outcome.status],
    }


def _joined(texts: Sequence[str], columns: Sequence[str]) -> str:
    """Return the columns of a text in one, with their names where there are several, as TextAttack's log has them."""
    if len(texts) > 1:
        texts = [f"[[[[{name.capitalize()}]]]]: {text}" for name, text in zip(columns, texts, strict=True)]
    return "\n".join(texts).replace("\n", _SPLIT)


def _marked(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns of both texts, with `[[...]]` around the words that changed."""
    from rbench.substitution.segmentation import spans_of

    marked: tuple[list[str], list[str]] = ([], [])
    for texts in zip(before, after, strict=True):
        spans = [[(start, end) for _, start, end in spans_of([text])] for text in texts]
        old, new = ([text[start:end] for start, end in own] for text, own in zip(texts, spans, strict=True))
        blocks = differing(old, new)
        places = [i for i, j, _, _ in blocks for i in range(i, j)], [k for _, _, k, m in blocks for k in range(k, m)]
        for text, own, which, made in zip(texts, spans, places, marked, strict=True):
            made.append(_with_marks(text, [own[i] for i in which]))
    return marked


def _with_marks(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Put marks around spans, the last one first."""
    for start, end in reversed(spans):
        text = f"{text[:start]}[[{text[start:end]}]]{text[end:]}"
    return text
