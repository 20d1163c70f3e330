"""Run suites from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api import call_options
from rbench.api.results import RunResult, build_result, run_prepared
from rbench.errors import MissingInputs, PlanError
from rbench.execution.run import check_device
from rbench.plan.prepare import Options, PreparedSuite, prepare_loaded
from rbench.schema import Suite
from rbench.store.runs import RunStore
from rbench.store.runs.store import check_same_suite
from rbench.system.progress import Progress, show_progress

if TYPE_CHECKING:
    from rbench.execution.cluster.executor import Executor
    from rbench.execution.spread import RunRequest


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
        executor: "inline" runs the jobs in this process. "local", "slurm" and "ray" start processes that run them. To
            set their options, give an `rbench.api.Executor`, or a mapping of its fields.
        progress: True shows it: below a notebook's cell, as bars on a terminal, elsewhere as lines on standard error.
            False shows nothing. A `rbench.system.progress.Progress` receives it.
        settings: single fields of `Options`, such as out="RUN", limit=20, device="cuda", profile="local", workers=4.

    A job that fails is recorded and listed in the result, and the jobs that do not need it still run.

    Raises:
        RbenchError: the suite, an option or a resource is wrong. This shows before any job runs.
    """
    options = call_options.resolve_options(options, settings)
    chosen_executor = None
    if executor not in (None, "inline"):  # the usual case needs no import of executors
        from rbench.execution.cluster.executor import executor_of

        chosen_executor = executor_of(executor)
    with show_progress(progress) as receiver:
        # An `Executor` and a mapping may say "inline", too.
        if chosen_executor is not None and chosen_executor.kind != "inline":
            from rbench.execution.spread import check_executor, spread  # only needed to start processes

            check_executor(chosen_executor)
            prepared = prepare_run(suite, options)
            content = call_options.suite_content(suite, prepared.plan.suite.name)
            run_outcome = spread(content, prepared, options, chosen_executor, receiver)
            return build_result(run_outcome, options, receiver, report=True)
        check_device(options.device)
        return run_prepared(prepare_run(suite, options), options, receiver, report=True)


def prepare_run(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> PreparedSuite:
    """Prepare a suite, and check that its folder can continue or take this RUN.

    Raises PlanError or StoreError if the folder holds a RUN of another suite, and what `prepare_suite` raises.
    """
    prepared = prepare_suite(suite, options)
    if not options.fresh:
        check_same_suite(prepared.run, prepared.loaded.suite.name)
        if options.out is None:  # the default folder has the suite's name, and two suites may have one name
            RunStore(prepared.run).check_suite(prepared.loaded.path)
    return prepared


def prepare_suite(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> PreparedSuite:
    """Load a suite and make its plan. Does not look at what its folder holds; `prepare_run` does.

    Raises ResourceError if inputs are missing. If many inputs of a suite in a file are, the message does not list them
    but says how many, which profiles can run instead, and the command that lists them.
    """
    loaded = call_options.load_suite(suite, options)
    try:
        return prepare_loaded(loaded, options)
    except MissingInputs as error:
        if not isinstance(suite, str | Path):  # the short message names a command that reads the suite's file
            raise
        from rbench.api.missing_inputs import shorten_error

        raise shorten_error(error, suite, options) from error


def run_request(request: RunRequest, progress: Progress) -> RunResult:
    """Do the work of one of the processes that share a RUN: run those of its jobs that no other process has taken.

    Raises PlanError if the suite gives another plan on this machine than on the one that sent the request.
    """
    from rbench.execution.spread import digest_without_texts  # not needed by a run in one process

    prepared = prepare_suite(request.suite, request.options)
    if digest_without_texts(prepared.plan) != request.plan:
        raise PlanError(
            f"{prepared.run}: the plan is another one on this machine. Give all machines the same data, weights "
            "and versions of rbench and its packages; `rbench status --environment SUITE` says on each what it finds "
            "where."
        )
    return run_prepared(prepared, request.options, progress, report=request.report)
