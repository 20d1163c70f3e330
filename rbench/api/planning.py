"""Plan suites from Python, and check conditions on their cells before they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api import call_options
from rbench.api.suites import prepared_run
from rbench.config.claims import missing
from rbench.config.metrics import Metrics
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.execution.forecast import Planned
from rbench.execution.run import check_attacks
from rbench.plan.order import select
from rbench.plan.prepare import Options
from rbench.plan.work import estimate
from rbench.schema import Suite
from rbench.store.job_status import Standing, standing
from rbench.store.runs import Store
from rbench.store.weights import WeightCache, default_cache
from rbench.tables.results import Results
from rbench.verdicts.cells import Cells

if TYPE_CHECKING:
    from rbench.gate.fail_if import Condition


def plan(suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None, **settings: Any) -> Planned:
    """Plan a suite: its jobs, which of them are done, and what the others will cost. Trains and attacks nothing.

    The arguments are those of `run`.
    """
    options = call_options.options_of(options, settings)
    prepared = prepared_run(suite, options)
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


def check_conditions(
    wanted: Sequence[Condition], suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None
) -> None:
    """Raise SuiteError where a suite has no cells that conditions are about, before it runs."""
    if not wanted:
        return
    options = options or Options()
    ground = Cells(Results.planned(plan(suite, options).plan, Metrics(Registry(options.include)))).ground
    for one in wanted:
        if (why := missing(one.metric.name, ground)) is not None:
            raise SuiteError(f"--fail-if {str(one)!r}: {why}")
