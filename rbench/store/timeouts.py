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
        num_timed_out = _count_timed_out(store, job) if job.attacking is not None else 0
        if not num_timed_out:
            continue
        users = _find_users(job, plan)
        trainings = [user for user in users if user.trains]
        done_training = next((user for user in trainings if _complete_record(store, user) is not None), None)
        if done_training is not None:
            notes.append(
                f"{job.name}: {_describe_count(num_timed_out)} not tried again, because {done_training.name} "
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
    record = _complete_record(store, job)
    if record is not None:
        return record.counts.get("timed_out", 0)
    return sum(outcome.timed_out for outcome in store.outcomes(job))


def _find_users(job: Job, plan: Plan) -> list[Job]:
    """Return the jobs that need a job, those that need these, and so on."""
    users: dict[str, Job] = {}
    # One pass is enough: a plan has each job after all that it needs.
    for planned in plan.jobs:
        if any(key == job.key or key in users for key in planned.needs.values()):
            users[planned.key] = planned
    return list(users.values())


def _describe_count(n: int) -> str:
    return "1 example that timed out is" if n == 1 else f"{n} examples that timed out are"
