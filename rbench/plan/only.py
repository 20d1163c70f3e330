"""Selects jobs of a plan by name, for `--only`."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from rbench.errors import PlanError
from rbench.spec import Job, Plan


def select(plan: Plan, patterns: Sequence[str]) -> tuple[Job, ...]:
    """Return the jobs whose name contains one of `patterns`, with all jobs that they need.

    A pattern with * or ? must match the whole name. Without patterns, return all jobs. Raises PlanError for a pattern
    that no job matches.
    """
    if not patterns:
        return plan.jobs
    chosen: set[str] = set()
    for pattern in patterns:
        literal = pattern.replace("[", "[[]")  # labels have brackets: `bertattack[max_words=10]`
        glob = literal if any(c in pattern for c in "*?") else f"*{literal}*"
        matches = {job.key for job in plan.jobs if fnmatch.fnmatchcase(job.name, glob)}
        if not matches:
            examples = ", ".join(job.name for job in plan.jobs[-3:])
            raise PlanError(f"--only {pattern}: no job matches. Job names look like {examples}")
        chosen |= matches
    by_key = {job.key: job for job in plan.jobs}
    queue = list(chosen)
    while queue:
        for need in by_key[queue.pop()].needs.values():
            if need not in chosen:
                chosen.add(need)
                queue.append(need)
    return tuple(job for job in plan.jobs if job.key in chosen)
