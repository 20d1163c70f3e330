"""Tests the inline executor: the order of jobs, and what happens to jobs that need a failed one."""

from __future__ import annotations

import pytest

from rbench.executors import inline
from rbench.spec import Job, Provenance, Record
from tests.plan.test_planner import inputs, make_plan, suite


def test_jobs_behind_a_failure_are_not_run_and_the_others_are() -> None:
    plan = make_plan(suite(encoders=["lm"]), inputs())
    broken = next(job for job in plan.jobs if job.name == "finetune/lm/a/clean/seed0")
    called: list[str] = []

    def call(job: Job) -> Record:
        called.append(job.key)
        return Record(
            job=job, status="failed" if job.key == broken.key else "complete", provenance=Provenance(rbench="0")
        )

    results = list(inline.run(plan.jobs, call))
    assert [job.key for job, _ in results] == [job.key for job in plan.jobs]
    missing = {job.key for job, record in results if record is None}
    assert missing == {job.key for job in plan.jobs if broken.key in job.needs.values()}
    assert set(called) == {job.key for job in plan.jobs} - missing


def test_what_the_callable_raises_ends_the_run() -> None:
    def call(job: Job) -> Record:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(inline.run(make_plan(suite(), inputs()).jobs, call))
