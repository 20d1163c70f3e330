"""Gives any victim that rbench knows as a ModelWrapper of TextAttack, for attacks that are run by TextAttack itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rbench.api.given_texts import read
from rbench.api.given_victims import How, victim_of
from rbench.errors import PlanError, StoreError
from rbench.load.search_path import search_path
from rbench.spec import Job
from rbench.storage.runs import Store
from rbench.storage.weights import WeightCache, default_cache
from rbench.tables.aggregate import plan_of

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
    from rbench.api.run import device_of
    from rbench.attack import EngineConfig
    from rbench.attack.engine import open_victim

    found = _of_run(Path(run), str(victim), task, seed) if run is not None else victim
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


def _of_run(run: Path, name: str, task: str | None, seed: int | None) -> Any:
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
