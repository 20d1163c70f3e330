"""Report the state of a plan's jobs: which records are reliable, which jobs are done, and what is wrong with others.

A record is reliable if it can be read, holds the scores that tables need, and its digests match the files beside it.
A problem affects only its own job: that job counts as not done, and tables show the others. So does a result that
stands on other weights than the rest of its RUN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from rbench.spec import Job, Plan, Record, error_kind
from rbench.storage.measures import lacking
from rbench.storage.mixed import mixed
from rbench.storage.runs import Reader

UNKNOWN = "of unknown kind"


@dataclass(frozen=True)
class Standing:
    """The records and problems of a plan's jobs, by job key. A job that never ran has neither."""

    records: Mapping[str, Record]
    """Reliable records, complete or failed, in the plan's order."""
    problems: Mapping[str, str]
    """What is wrong with the other jobs, and the remedy."""
    mixed: frozenset[str] = frozenset()
    """Keys of the jobs among them that stand on other weights than the rest of the RUN."""

    @cached_property
    def done(self) -> frozenset[str]:
        """Keys of the jobs that need not run again."""
        return frozenset(key for key, record in self.records.items() if record.status == "complete")


def standing(store: Reader, plan: Plan) -> Standing:
    """Check the plan's jobs in `store`. Reads all of every file that has a digest in a record."""
    records, problems = {}, {}
    for job in plan.jobs:
        found = store.look(job)
        problem = found.problem
        if problem is None and found.record is not None and (lack := lacking(found.record)) is not None:
            problem = f"{lack} {job.name} counts as not done; the same rbench run makes it again."
        if problem is not None:
            problems[job.key] = problem
        elif found.record is not None:
            records[job.key] = found.record
    unlike = mixed(plan, records)
    for job in (job for job in plan.jobs if job.key in unlike):
        del records[job.key]
        problems[job.key] = f"{unlike[job.key]} {redo(store, job)}"
    return Standing(records, problems, frozenset(unlike))


def redo(store: Reader, job: Job) -> str:
    """Say how to have a result made again on the weights that the rest of a RUN stands on."""
    return f"Delete the folder {store.folder(job)}, and the same rbench run makes it again; or begin anew with --fresh."


def errored(store: Reader, found: Standing, jobs: Iterable[Job]) -> dict[str, int]:
    """Count the examples of complete jobs that errored, by type of exception, the most frequent first."""
    kinds: Counter[str] = Counter()
    for job in jobs:
        if job.key not in found.done or not (n := found.records[job.key].counts.get("errored", 0)):
            continue
        known = Counter(error_kind(o.error or "") for o in store.outcomes(job) if o.status == "errored")
        kinds += known or Counter({UNKNOWN: n})
    return dict(kinds.most_common())
