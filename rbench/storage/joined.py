"""Read several RUNs as one. Each job is taken from one of them: where it is complete, if it is anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rbench.errors import StoreError
from rbench.spec import Job, Plan, Record
from rbench.storage.runs import Reader, Store
from rbench.storage.standing import Standing, standing
from rbench.system.below import Below

_NAMED = 3
"""How many jobs a note names."""


@dataclass(frozen=True)
class Part:
    """One of the RUNs."""

    store: Store
    plan: Plan
    standing: Standing

    @classmethod
    def of(cls, store: Store, plan: Plan) -> Part:
        return cls(store, plan, standing(store, plan))

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Its jobs by key."""
        return {job.key: job for job in self.plan.jobs}


class Joined(Reader):
    """The jobs of several RUNs under one plan. There is no folder of it, and nothing can be written.

    Args:
        parts: the RUNs by name.
        plan: the plan of all of them (`rbench.plan.union`).

    Attributes:
        root: the RUNs' names, for messages; not a folder.
        source: the name of the RUN that each job is taken from, by key.
        standing: the state of all jobs.
        shared: how many jobs several RUNs have completed.
        notes: which of these have other numbers in one RUN than in another, and where they are taken from.

    Raises:
        StoreError: victims or encoders of one key have other weights in one RUN than in another, and results of both
            are there. The message lists all of them.
    """

    def __init__(self, parts: Mapping[str, Part], plan: Plan) -> None:
        self.root = Path(", ".join(parts))
        self.source = _sources(parts, plan)
        if wrong := _unlike_weights(parts, plan, self.source):
            listed = "\n".join(f"  {line}" for line in wrong)
            raise StoreError(
                f"these RUNs do not belong into one table:\n{listed}\nTwo trainings of one job gave other weights. Let "
                "RUNs that share a victim share the cache (RBENCH_CACHE), or divide a suite by tasks and encoders, not "
                "by attacks."
            )
        self._plan = plan
        self._folders, self._stores = {}, {}
        records, problems = {}, {}
        for job in plan.jobs:
            part = parts[self.source[job.key]]
            self._stores[job.key] = part.store
            self._folders[job.key] = part.store.folder(part.jobs[job.key])
            if job.key in part.standing.records:
                records[job.key] = part.standing.records[job.key]
            elif job.key in part.standing.problems:
                problems[job.key] = part.standing.problems[job.key]
        self.standing = Standing(records, problems)
        self.shared, self.notes = _shared(parts, plan, self.source)

    def plan(self) -> Plan:
        return self._plan

    def folder(self, job: Job) -> Path:
        """Return the job's folder in its RUN."""
        return self._folders[job.key]

    def below(self, job: Job) -> Below:
        return self._stores[job.key].below(job)


def _users(plan: Plan) -> dict[str, list[Job]]:
    """Return the jobs that need each job, by its key."""
    users: dict[str, list[Job]] = {job.key: [] for job in plan.jobs}
    for job in plan.jobs:
        for key in set(job.needs.values()):
            users[key].append(job)
    return users


def _sources(parts: Mapping[str, Part], plan: Plan) -> dict[str, str]:
    """Choose the RUN of each job.

    If several have completed a job, it is that from which a job that needs it is taken, else the first. If none has,
    it is one where the job failed, else the one with the most outcomes.
    """
    users = _users(plan)
    sources: dict[str, str] = {}
    for job in reversed(plan.jobs):
        done = [run for run, part in parts.items() if job.key in part.standing.done]
        above = {sources[user.key] for user in users[job.key]}
        if done:
            sources[job.key] = next((run for run in done if run in above), done[0])
        else:
            having = [run for run, part in parts.items() if job.key in part.jobs]
            sources[job.key] = max(having, key=lambda run: _progress(parts[run], job.key))
    return sources


def _progress(part: Part, key: str) -> tuple[bool, int]:
    return key in part.standing.records, len(part.store.outcomes(part.jobs[key]))


def _unlike_weights(parts: Mapping[str, Part], plan: Plan, sources: Mapping[str, str]) -> list[str]:
    """Return the trainings of which results of several RUNs are there, with other weights in one than in another."""
    users, lines = _users(plan), []
    for job in plan.jobs:
        if not job.trains:
            continue
        found: dict[str, set[str]] = {}
        for one in (job, *users[job.key]):
            run = sources[one.key]
            records = parts[run].standing.records
            if one.key in parts[run].standing.done and (weights := _weights(job, one, records)):
                found.setdefault(run, set()).add(weights)
        first, *others = found or [""]
        lines += [
            f"{job.name}: its weights in {first} and in {other} differ"
            for other in others
            if not found[first] & found[other]
        ]
    return lines


def _weights(training: Job, user: Job, records: Mapping[str, Record]) -> str | None:
    """Return the hash of the weights of a training that a job used, or made. None where no record has it."""
    key = user.key if "victim" in user.needs and training.tuning is not None else training.key
    return records[key].provenance.weights_hash if key in records else None


def _shared(parts: Mapping[str, Part], plan: Plan, sources: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Count the jobs that several RUNs have completed, and say which of them have other numbers in some."""
    several, unlike = 0, []
    for job in plan.jobs:
        records = {run: part.standing.records[job.key] for run, part in parts.items() if job.key in part.standing.done}
        if len(records) > 1:
            several += 1
            unlike += [job] if len({_numbers(record) for record in records.values()}) > 1 else []
    if not unlike:
        return several, ()
    named = ", ".join(f"{job.name} from {sources[job.key]}" for job in unlike[:_NAMED])
    more = f", and {len(unlike) - _NAMED} more" if len(unlike) > _NAMED else ""
    return several, (f"{len(unlike)} jobs have other numbers in one RUN than in another; taken: {named}{more}",)


def _numbers(record: Record) -> str:
    """Return what two runs of one job should have in common: all numbers but times."""
    scores = [score.model_dump() for score in record.scores if score.name != "seconds"]
    return repr((scores, sorted(record.counts.items()), record.provenance.weights_hash))
