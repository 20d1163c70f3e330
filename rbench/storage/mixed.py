"""Find results of one RUN that stand on different weights of one job.

A key says what is trained, not what comes out: trained again on another machine, a victim may have other weights under
the same key. Results on the old and on the new ones do not belong into one RUN. Each record says on which weights it
stands: its own, and those behind what it read of other jobs (`Provenance.inputs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rbench.spec import Job, Plan, Record

SHORT = 12
"""Hex digits of a hash in a message."""


def behind(record: Record, key: str) -> frozenset[str]:
    """Return the hashes by which a record names the weights behind the job of this key, which its own job needs."""
    job, source = record.job, record.provenance
    roles = {role for role, needed in job.needs.items() if needed == key}
    found = {source.inputs.get(key)}
    if not job.trains and roles & {"victim", "encoder"}:
        found.add(source.weights_hash)
    if "masked_lm" in roles:
        found.add(source.resources.get("masked_lm"))
    return frozenset(one for one in found if one is not None)


def standing_on(plan: Plan, records: Mapping[str, Record], key: str) -> Iterator[tuple[Job, str]]:
    """Yield each complete job that says on which weights of the job of this key it stands, with their hash.

    The first is the job itself, if it is complete.
    """
    return ((job, own) for job, needed, own in _stated(plan, records) if needed == key)


def mixed(plan: Plan, records: Mapping[str, Record]) -> dict[str, str]:
    """Say by job which results stand on other weights than the records of the jobs that they need name.

    Where such a job has no record, the first result that stands on it counts as right.
    """
    right: dict[str, str] = {}
    found: dict[str, str] = {}
    for job, needed, own in _stated(plan, records):  # a job comes after those that it needs
        if own != right.setdefault(needed, own):
            found.setdefault(
                job.key,
                f"{job.name} stands on other weights of {plan.job(needed).name} ({own[:SHORT]}) than the rest of the "
                f"RUN ({right[needed][:SHORT]}).",
            )
    return found


def _stated(plan: Plan, records: Mapping[str, Record]) -> Iterator[tuple[Job, str, str]]:
    """Yield what complete jobs say, in the plan's order: the job, the key of a job, and the hash of its weights."""
    for job in plan.jobs:
        record = records.get(job.key)
        if record is None or record.status != "complete":
            continue
        if record.provenance.weights_hash is not None:
            yield job, job.key, record.provenance.weights_hash
        for needed in dict.fromkeys(job.needs.values()):
            yield from ((job, needed, one) for one in sorted(behind(record, needed)))
