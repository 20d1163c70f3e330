"""Have examples that timed out attacked again: remove their outcomes, and the records that were made of them."""

from __future__ import annotations

from collections.abc import Sequence

from rbench.schema import Job, Plan, Record
from rbench.store.runs import Store


def forget(store: Store, plan: Plan, jobs: Sequence[Job]) -> list[str]:
    """Remove the outcomes of `jobs` that timed out, and say in sentences what was done.

    An attack that was complete counts as not done afterwards, and so do evaluations of its outcomes. Weights that were
    trained on its outcomes would no longer be what its key says, so such an attack stays as it is. No other process may
    work in the RUN. An interruption loses nothing: what is removed is only ever attacked again.

    Raises StoreError if something cannot be read or written.
    """
    notes = []
    for job in jobs:
        if job.attacking is None or not (late := _late(store, job)):
            continue
        after = _after(job, plan)
        trained = [one for one in after if one.trains and _complete(store, one) is not None]
        if trained:
            notes.append(f"{job.name}: {_times(late)} not tried again, because {trained[0].name} learned from the rest")
            continue
        kept = [outcome for outcome in store.outcomes(job) if not outcome.timed_out]
        store.write_outcomes(job, kept)
        for one in (job, *after):
            store.remove(one, store.folder(one) / "record.json")
        notes.append(f"{job.name}: {_times(late)} tried again")
    return notes


def _complete(store: Store, job: Job) -> Record | None:
    """Return the record of a job that is complete. One that failed has made no weights."""
    record = store.look(job).record
    return record if record is not None and record.status == "complete" else None


def _late(store: Store, job: Job) -> int:
    """Return how many examples of a job timed out. The record of a complete job says so without its outcomes."""
    if (record := _complete(store, job)) is not None:
        return record.counts.get("timed_out", 0)
    return sum(outcome.timed_out for outcome in store.outcomes(job))


def _after(job: Job, plan: Plan) -> list[Job]:
    """Return the jobs that need a job, and those that need these. A plan has each after all that it needs."""
    found = {job.key: job}
    for one in plan.jobs:
        if any(key in found for key in one.needs.values()):
            found[one.key] = one
    return [one for key, one in found.items() if key != job.key]


def _times(n: int) -> str:
    return "1 example that timed out is" if n == 1 else f"{n} examples that timed out are"
