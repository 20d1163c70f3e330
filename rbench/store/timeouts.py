"""Have examples that timed out attacked again: remove their outcomes, and the records that were made of them."""

from __future__ import annotations

from collections.abc import Sequence

from rbench.schema import Job, Plan, Record
from rbench.store.runs import RunStore


def forget_timed_out(store: RunStore, plan: Plan, jobs: Sequence[Job]) -> list[str]:
    """Remove the outcomes of `jobs` that timed out, and say in sentences what was done.

    An attack that was complete counts as not done afterwards, and so do evaluations of its outcomes. Weights that were
    trained on its outcomes would no longer be what its key says, so such an attack stays as it is. No other process may
    work in the RUN. An interruption loses nothing: what is removed is only ever attacked again.

    Raises StoreError if something cannot be read or written.
    """
    notes = []
    for job in jobs:
        if job.attacking is None or not (num_timed_out := _count_timed_out(store, job)):
            continue
        users = _find_users(job, plan)
        trained = [user for user in users if user.trains and _complete_record(store, user) is not None]
        if trained:
            notes.append(
                f"{job.name}: {_describe_count(num_timed_out)} not tried again, because {trained[0].name} "
                "learned from the rest"
            )
            continue
        in_time = [outcome for outcome in store.outcomes(job) if not outcome.timed_out]
        # Outcomes before records: interrupted in between, a record does not match its lines, and its job is done again.
        store.write_outcomes(job, in_time)
        for user in (job, *users):
            store.remove(user, store.folder(user) / "record.json")
        notes.append(f"{job.name}: {_describe_count(num_timed_out)} tried again")
    return notes


def _complete_record(store: RunStore, job: Job) -> Record | None:
    """Return the record of a job that is complete. One that failed has made no weights."""
    record = store.look(job).record
    return record if record is not None and record.status == "complete" else None


def _count_timed_out(store: RunStore, job: Job) -> int:
    """Return how many examples of a job timed out. The record of a complete job says so without its outcomes."""
    if (record := _complete_record(store, job)) is not None:
        return record.counts.get("timed_out", 0)
    return sum(outcome.timed_out for outcome in store.outcomes(job))


def _find_users(job: Job, plan: Plan) -> list[Job]:
    """Return the jobs that need a job, and those that need these. A plan has each after all that it needs."""
    users = {job.key: job}
    for planned in plan.jobs:
        if any(key in users for key in planned.needs.values()):
            users[planned.key] = planned
    return [planned for key, planned in users.items() if key != job.key]


def _describe_count(n: int) -> str:
    return "1 example that timed out is" if n == 1 else f"{n} examples that timed out are"
