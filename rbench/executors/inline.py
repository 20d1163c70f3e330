"""One job after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rbench.spec import Job, Record


def run(jobs: Sequence[Job], call: Callable[[Job], Record]) -> Iterator[tuple[Job, Record | None]]:
    """Yield each job with the record that `call` returns; None for a job that needs one that failed.

    `jobs` come after those that they need. `call` turns its errors into failed records; what it raises ends the run.
    """
    failed: set[str] = set()
    for job in jobs:
        record = None if failed.intersection(job.needs.values()) else call(job)
        if record is None or record.status == "failed":
            failed.add(job.key)
        yield job, record
