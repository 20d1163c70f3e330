"""Run one job after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rbench.spec import Job, Record


def run(jobs: Sequence[Job], call: Callable[[Job], Record]) -> Iterator[tuple[Job, Record | None]]:
    """Call `call` on each job in order and yield the job with its record.

    A job is not run if a job that it needs failed or was not run. Its record is None.

    Args:
        jobs: jobs in an order in which each comes after all jobs that it needs.
        call: runs a job. It turns errors into failed records. An exception that it raises ends the run.
    """
    failed: set[str] = set()
    for job in jobs:
        record = None if failed.intersection(job.needs.values()) else call(job)
        if record is None or record.status == "failed":
            failed.add(job.key)
        yield job, record
