"""How the jobs of a plan stand: which records can be relied upon, which jobs are done, and what is wrong with others.

A record is relied upon where it can be read, says what tables need, and its digests are those of the files beside it.
What is wrong with one job concerns that job alone: it counts as not done, and the others are tabled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from rbench.score import lacking
from rbench.spec import Job, Plan, Record, error_kind
from rbench.storage.runs import Store

UNKNOWN = "of unknown kind"


@dataclass(frozen=True)
class Standing:
    """The jobs of a plan that left something behind, by key."""

    records: Mapping[str, Record]
    """What can be relied upon: complete ones and failed ones, in the plan's order."""
    problems: Mapping[str, str]
    """What is wrong with others, and the remedy."""

    @cached_property
    def done(self) -> frozenset[str]:
        """Keys of the jobs that need not run again."""
        return frozenset(key for key, record in self.records.items() if record.status == "complete")


def standing(store: Store, plan: Plan) -> Standing:
    """How the plan's jobs stand in `store`. Reads each file that a record has a digest of, whole."""
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
    return Standing(records, problems)


def errored(store: Store, found: Standing, jobs: Iterable[Job]) -> dict[str, int]:
    """How many examples of complete jobs errored, by the type of what was raised, the most frequent first."""
    kinds: Counter[str] = Counter()
    for job in jobs:
        if job.key not in found.done or not (n := found.records[job.key].counts.get("errored", 0)):
            continue
        known = Counter(error_kind(o.error or "") for o in store.outcomes(job) if o.status == "errored")
        kinds += known or Counter({UNKNOWN: n})
    return dict(kinds.most_common())
