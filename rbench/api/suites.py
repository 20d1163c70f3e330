"""Run suites from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api import call_options
from rbench.api.results import RunResult, result_of, run_prepared
from rbench.errors import MissingInputs, PlanError
from rbench.plan.prepare import Options, Prepared, prepare_loaded
from rbench.schema import Suite
from rbench.store.runs import Store
from rbench.store.runs.store import check_same_suite
from rbench.system.progress import Progress, shown

if TYPE_CHECKING:
    from rbench.execution.cluster.executor import Executor
    from rbench.execution.spread import Request


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
            `rbench.api.Executor`, or a mapping of its fields, says more.
        progress: True shows it: below a notebook's cell, as bars on a terminal, elsewhere as lines on standard error.
            False shows nothing. A `rbench.system.progress.Progress` receives it.
        settings: single fields of `Options`, such as out="RUN", limit=20, device="cuda", profile="local", workers=4.

    Raises RbenchError before any work if the suite, an option or a resource is wrong. A job that fails while running is
    recorded and listed in the result, and the jobs that do not need it still run.
    """
    options = call_options.options_of(options, settings)
    where = None
    if executor not in (None, "inline"):
        from rbench.execution.cluster.executor import executor_of

        where = executor_of(executor)
    with shown(progress) as receiver:
        if where is not None and where.kind != "inline":
            from rbench.execution.spread import check, spread  # a run in this process starts no others

            check(where)
            prepared = prepared_run(suite, options)
            content = call_options.content(suite, prepared.plan.suite.name)
            return result_of(spread(content, prepared, options, where, receiver), options, receiver, report=True)
        return run_prepared(prepared_run(suite, options), options, receiver, report=True)


def prepared_run(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> Prepared:
    """Prepare a suite for its RUN. Raises PlanError where its folder holds a RUN of another suite."""
    prepared = prepared_for(suite, options)
    if not options.fresh:
        check_same_suite(prepared.run, prepared.loaded.suite.name)
        if options.out is None:  # who names a folder has decided
            Store(prepared.run).check_suite(prepared.loaded.path)
    return prepared


def prepared_for(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> Prepared:
    """Prepare a suite that a call names or gives.

    Raises ResourceError where inputs are missing; where many are, it tells them in three lines.
    """
    loaded = call_options.loaded(suite, options)
    try:
        return prepare_loaded(loaded, options)
    except MissingInputs as error:
        if not isinstance(suite, str | Path):
            raise
        from rbench.api.missing_inputs import told

        raise told(error, suite, options) from error


def work(request: Request, progress: Progress) -> RunResult:
    """Run the suite beside the other processes. Raises PlanError if it has another plan on this machine."""
    from rbench.execution.spread import told_apart  # which a run in one process does not need

    prepared = prepared_for(request.suite, request.options)
    if told_apart(prepared.plan) != request.plan:
        raise PlanError(
            f"{prepared.run}: the plan is another one on this machine. Give all machines the same data, weights "
            "and versions of rbench and its packages; `rbench status --environment SUITE` says on each what it finds "
            "where."
        )
    return run_prepared(prepared, request.options, progress, report=request.report)
