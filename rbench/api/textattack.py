"""What TextAttack itself can use: any victim as a ModelWrapper, and outcomes as its CSV log."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rbench.api.asked import path_of
from rbench.api.attacking import read
from rbench.api.given_victims import How, victim_of
from rbench.api.results import AttackResult, RunResult
from rbench.api.run import device_of
from rbench.api.runs import Runs, results_of
from rbench.errors import PlanError, StoreError
from rbench.load.search_path import search_path
from rbench.spec import Job, Outcome
from rbench.storage.runs import Store
from rbench.storage.weights import WeightCache, default_cache
from rbench.system.changes import differing
from rbench.system.escaping import cell as escaped
from rbench.tables.aggregate import grid, plan_of

_PLACEHOLDER = "a"


def textattack_wrapper(
    victim: Any,
    *,
    run: str | os.PathLike[str] | None = None,
    task: str | None = None,
    seed: int | None = None,
    label_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    max_length: int | None = None,
    device: str = "auto",
    backend: str = "auto",
    models: Sequence[str | os.PathLike[str]] = (),
) -> Any:
    """Return a victim as a `textattack.models.wrappers.ModelWrapper`: texts in, a tensor of logits (n, labels) out.

    >>> wrapper = rbench.textattack_wrapper("simcse-mini-packaged", run="results/runs/quickstart", task="mini-nli")
    >>> textattack.attack_recipes.TextFoolerJin2019.build(wrapper)

    Each distinct text is computed once. A function or an endpoint gives probabilities, as TextAttack accepts too.

    Args:
        victim: anything that `rbench.attack` takes; with `run` the name of an encoder there, as its tables have it
            (`rbench.load_results`), or of a classifier under `victims`.
        run: the RUN whose victim is meant.
        task: the task that it was fine-tuned on; None: the only one.
        seed: its seed; None: the lowest.
        label_names: names of the labels, where the victim states none.
        columns: names of the texts' columns; None: one column.
        max_length: longest input of a model in tokens; None: the longest that it reads.
        device: `auto`, `cpu` or `cuda`.
        backend: what computes the network, as in `Options`.
        models: folders that are searched for the victim, before those of RBENCH_MODELS.

    Raises:
        RbenchError: there is no such victim, its weights are no longer in the cache, or several are meant.
    """
    from rbench.attack import EngineConfig
    from rbench.attack.engine import open_victim

    found = _victim_of_run(Path(run), str(victim), task, seed) if run is not None else victim
    how = How(max_length=max_length, models=search_path(map(Path, models), "RBENCH_MODELS"))
    given = victim_of(found, how)
    texts = read([tuple([_PLACEHOLDER] * len(columns or ("text",)))], [0], columns)
    spec = texts.task(given.names(label_names, texts.first))
    on = device_of(device)
    if given.locate is None:
        assert given.opened is not None
        return given.opened(spec, backend)
    config = EngineConfig(on, backend, backends_file=default_cache() / "backends.json")
    said = None if given.given is None else given.given(spec.labels)
    return open_victim(said, given.locate(spec).where, spec, given.name, config)


def _victim_of_run(run: Path, name: str, task: str | None, seed: int | None) -> Any:
    """Return the folder of a victim that a run fine-tuned, or the classifier that it opened."""
    plan = plan_of(Store(run))
    victims = [job for job in plan.jobs if job.victim is not None]
    meant = [job for job in victims if name in (job.parts[0], "/".join(job.parts), job.name)]
    meant = [job for job in meant if task in (None, _task(job)) and seed in (None, job.seed)]
    if not meant:
        there = ", ".join(dict.fromkeys(job.name.partition("/")[2] for job in victims)) or "none"
        raise StoreError(f"{run} has no victim {name} of this task and seed; it has {there}")
    if seed is None:
        meant = [job for job in meant if job.seed == min(job.seed for job in meant)]
    if len(meant) > 1:
        raise PlanError(f"{name} means several victims of {run}: {', '.join(job.name for job in meant)}. Name the task")
    (job,) = meant
    return job.opening.victim if job.opening is not None else WeightCache(default_cache()).folder(job.key)


def _task(job: Job) -> str:
    assert job.victim is not None
    return job.victim.task.name


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
