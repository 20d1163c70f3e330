"""Plan suites from Python, and check conditions on their cells before they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api import call_options
from rbench.api.suites import prepare_run
from rbench.config.claims import why_metric_missing
from rbench.config.metrics import MetricCatalogue
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.execution.forecast import Planned
from rbench.execution.run import check_attacks
from rbench.plan.order import select_jobs
from rbench.plan.prepare import Options
from rbench.plan.work import estimate_cost
from rbench.schema import Suite
from rbench.store.job_status import JobStatuses, load_statuses
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.tables.results import Results
from rbench.verdicts.cells import RunCells

if TYPE_CHECKING:
    from rbench.gate.fail_if import FailCondition


def plan(suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None, **settings: Any) -> Planned:
    """Plan a suite: its jobs, which of them are done, and what the others will cost. Trains and attacks nothing.

    The arguments are those of `run`.
    """
    options = call_options.resolve_options(options, settings)
    prepared = prepare_run(suite, options)
    store = RunStore(prepared.run)
    jobs = select_jobs(prepared.plan, options.only)
    statuses = JobStatuses({}, {}) if options.fresh else load_statuses(store, prepared.plan)
    left = [job for job in jobs if job.key not in statuses.done]
    check_attacks(left, set_by_suite=True)
    costs = {job.key: estimate_cost(job, prepared) for job in jobs}
    cache = WeightCache(default_cache())
    return Planned(
        plan=prepared.plan,
        jobs=jobs,
        run=prepared.run,
        done=statuses.done,
        estimates={key: cost for key, cost in costs.items() if cost is not None},
        notes=[*prepared.notes, *(statuses.problems[job.key] for job in jobs if job.key in statuses.problems)],
        cached=frozenset(job.key for job in left if cache.seems_to_have(job.key)),
        prepared=prepared,
    )


def check_conditions(
    wanted: Sequence[FailCondition], suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None
) -> None:
    """Raise SuiteError where a suite has no cells that conditions are about, before it runs."""
    if not wanted:
        return
    options = options or Options()
    metrics = MetricCatalogue(Registry(options.include))
    scope = RunCells(Results.for_plan(plan(suite, options).plan, metrics)).claim_scope
    for condition in wanted:
        why = why_metric_missing(condition.metric.name, scope)
        if why is not None:
            raise SuiteError(f"--fail-if {str(condition)!r}: {why}")
