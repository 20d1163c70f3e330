"""Plan and run suites from Python, and attack a few examples to look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rbench import load as loading
from rbench.api import ahead, asked
from rbench.api.attack_checks import check_attacks
from rbench.api.classifiers import Entry
from rbench.api.executor import Executor, executor_of
from rbench.api.run import run_prepared
from rbench.api.run_result import RunResult
from rbench.api.work import prepared_for
from rbench.errors import PlanError, RbenchError
from rbench.load.registry import Registry
from rbench.plan.estimate import Estimate, estimate
from rbench.plan.occupied import check_same_suite
from rbench.plan.only import select
from rbench.plan.prepare import Options, Prepared, prepare_loaded
from rbench.progress import Progress, Silent
from rbench.progress.shown import shown
from rbench.spec import Job, Outcome, Plan, Suite
from rbench.storage import origin
from rbench.storage.runs import Store
from rbench.storage.standing import Standing, standing
from rbench.storage.weights import WeightCache, default_cache
from rbench.system import scratch


@dataclass(frozen=True)
class Planned:
    """A planned suite: its jobs, its RUN folder, which jobs are done, what the others cost, and notes for the user.

    `done` and `cached` are keys of jobs. A job in `cached` is not done but costs next to nothing, because the weights
    that it would make are in the cache.
    """

    plan: Plan
    jobs: tuple[Job, ...]
    """The jobs chosen by --only, in order; without it all jobs of the plan."""
    run: Path
    done: frozenset[str]
    estimates: Mapping[str, Estimate]
    notes: list[str]
    cached: frozenset[str] = frozenset()
    prepared: Prepared | None = field(default=None, repr=False)
    """All that planning found, for `rbench.api.forecast`."""


def plan(suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None, **settings: Any) -> Planned:
    """Plan a suite: its jobs, which of them are done, and what the others will cost. Trains and attacks nothing.

    The arguments are those of `run`.
    """
    options = asked.options_of(options, settings)
    prepared = _prepared(suite, options)
    store = Store(prepared.run)
    jobs = select(prepared.plan, options.only)
    found = Standing({}, {}) if options.fresh else standing(store, prepared.plan)
    check_attacks((job for job in jobs if job.key not in found.done), set_by_suite=True)
    cache = WeightCache(default_cache())
    return Planned(
        plan=prepared.plan,
        jobs=jobs,
        run=prepared.run,
        done=found.done,
        estimates={job.key: cost for job in jobs if (cost := estimate(job, prepared)) is not None},
        notes=[*prepared.notes, *(found.problems[job.key] for job in jobs if job.key in found.problems)],
        cached=frozenset(job.key for job in jobs if job.key not in found.done and cache.seems_to_have(job.key)),
        prepared=prepared,
    )


def run(
    suite: str | Path | Mapping[str, Any] | Suite,
    options: Options | None = None,
    *,
    executor: str | Executor | Mapping[str, Any] | None = "inline",
    progress: Progress | bool = True,
    **settings: Any,
) -> RunResult:
    """Run the jobs of a suite that are not done, and return its results. The same call resumes, also after a crash.

    Args:
        suite: a name such as "quickstart", the path of a YAML file, or what such a file would hold: a mapping like
            {"encoders": ["mini-bert"], "tasks": ["mini-sentiment"], "attacks": ["pwws"]}, or a `Suite`. The default
            of the key `name` is the name of the folder `out`, or else "suite".
        options: how to run it; None: the defaults, and the search paths of RBENCH_DATA, RBENCH_MODELS, RBENCH_INCLUDE.
        executor: "inline" runs the jobs in this process. "local", "slurm" and "ray" start processes that do; an
            `rbench.Executor`, or a mapping of its fields, says more.
        progress: True shows it: below a notebook's cell, as bars on a terminal, elsewhere as lines on standard error.
            False shows nothing. A `rbench.progress.Progress` receives it.
        settings: single fields of `Options`, such as out="RUN", limit=20, device="cuda", profile="local", workers=4.

    Raises RbenchError before any work if the suite, an option or a resource is wrong. A job that fails while running is
    recorded and listed in the result, and the jobs that do not need it still run.
    """
    options = asked.options_of(options, settings)
    where = executor_of(executor)
    with shown(progress) as receiver:
        if where.kind != "inline":
            from rbench.api.spread import run_spread
            from rbench.api.starting import check

            check(where)
            return run_spread(suite, _prepared(suite, options), options, where, receiver)
        return run_prepared(_prepared(suite, options), options, receiver, report=True)


def _prepared(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> Prepared:
    """Prepare a suite for its RUN. Raises PlanError where its folder holds a RUN of another suite."""
    prepared = prepared_for(suite, options)
    if not options.fresh:
        check_same_suite(prepared.run, prepared.loaded.suite.name)
        if options.out is None:  # who names a folder has decided
            origin.check(prepared.run, prepared.loaded.path)
    return prepared


def attack(
    encoder: str | None,
    task: str | Mapping[str, Any],
    attack: str,
    n: int = 5,
    options: Options | None = None,
    *,
    classifier: Entry | None = None,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Fine-tune (or take from the cache) one victim, attack `n` examples, and yield their outcomes.

    `task` is written as in a suite: a name, the path of a table, or `{"my.csv": {"text": "review", "label": "stars"}}`.
    `encoder` is a name of the registry, a folder (`./mine`, or its path), or a hub id (`OWNER/NAME`). With `classifier`
    in its place, which is an entry under `victims` of a suite, nothing is fine-tuned. What is trained first, and about
    how long that takes, is a note of `progress`.

    The outcomes go to a folder that is deleted afterwards; use a suite to keep results. Raises PlanError if
    `options.texts` is false, because the texts are what it shows.
    """
    options = options or Options()
    if not options.texts:
        raise PlanError("rbench attack shows texts, so --no-texts does not apply; use rbench run --no-texts for scores")
    registry = Registry(options.include)
    victims: dict[str, Any] = {"victims": [classifier]} if classifier is not None else {"encoders": [encoder]}
    suite = {"name": "attack", **victims, "tasks": [task], "attacks": [attack], "num_examples": n}
    if isinstance(task, str) and task.startswith("mini-"):
        suite["resources"] = "mini"
    loaded = loading.load_mapping(
        asked.plain(suite), registry=registry, overrides=options.overrides, origin="rbench attack"
    )
    with scratch.folder("attack") as folder:
        prepared = prepare_loaded(loaded, dataclasses.replace(options, out=folder))
        cache = WeightCache(default_cache())
        if progress is not None and (note := ahead.note(prepared, cache)) is not None:
            progress.note(note)
        result = run_prepared(prepared, options, progress or Silent())
        outcomes = Store(folder).outcomes(prepared.plan.jobs[-1])
        if result.failed and len(outcomes) < n:  # a job that failed because examples errored still has all outcomes
            raise RbenchError(result.failed[0].error or f"{result.failed[0].job.name} failed")
        yield from outcomes
