"""Report the state of a plan's jobs: which records are reliable, which jobs are done, and what is wrong with others.

A record is reliable if it can be read, holds the scores that tables need, and its digests match the files beside it.
A problem affects only its own job: that job counts as not done, and tables show the others. So does a result that
stands on other weights than the rest of its RUN.

A key says what is trained, not what comes out: trained again on another machine, a victim may have other weights under
the same key. Results on the old and on the new ones do not belong into one RUN. Each record says on which weights it
stands: its own, and those behind what it read of other jobs (`Provenance.inputs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rbench.config.code import find
from rbench.errors import RbenchError
from rbench.schema import Job, MeasureJob, Plan, Record, error_kind
from rbench.score import record_problem as lacking_of_attack
from rbench.store.runs import RunReader, RunStore

UNKNOWN_KIND = "of unknown kind"
SHORT_DIGITS = 12
"""Hex digits of a hash in a message."""


@dataclass(frozen=True)
class JobStatuses:
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

    def unfinished(self, jobs: Iterable[Job]) -> tuple[list[Job], list[Job], list[Job]]:
        """Return those of some jobs that failed, those that are damaged, and those that are not done."""
        listed = list(jobs)
        damaged = [job for job in listed if job.key in self.problems]
        failed = [job for job in listed if job.key in self.records and job.key not in self.done]
        return failed, damaged, [job for job in listed if job.key not in self.records and job.key not in self.problems]


def load_statuses(store: RunReader, plan: Plan) -> JobStatuses:
    """Check the plan's jobs in `store`. Reads all of every file that has a digest in a record."""
    records, problems = {}, {}
    for job in plan.jobs:
        stored = store.look(job)
        problem = stored.problem
        # A sound record may still lack a number that tables need, when an earlier version wrote it.
        if (
            problem is None
            and stored.record is not None
            and (missing_text := missing_number(stored.record)) is not None
        ):
            problem = f"{missing_text} {job.name} counts as not done; the same rbench run makes it again."
        if problem is not None:
            problems[job.key] = problem
        elif stored.record is not None:
            records[job.key] = stored.record
    mixed_weights = find_mixed_weights(plan, records)
    for job in (job for job in plan.jobs if job.key in mixed_weights):
        del records[job.key]
        problems[job.key] = f"{mixed_weights[job.key]} {rerun_hint(store, job)}"
    return JobStatuses(records, problems, frozenset(mixed_weights))


def rerun_hint(store: RunReader, job: Job) -> str:
    """Say how to have a result made again on the weights that the rest of a RUN stands on."""
    return f"Delete the folder {store.folder(job)}, and the same rbench run makes it again; or begin anew with --fresh."


def count_errored(store: RunReader, statuses: JobStatuses, jobs: Iterable[Job]) -> dict[str, int]:
    """Count the examples of complete jobs that errored, by type of exception, the most frequent first."""
    kinds: Counter[str] = Counter()
    for job in jobs:
        if job.key not in statuses.done or not (num_errored := statuses.records[job.key].counts.get("errored", 0)):
            continue
        known_kinds = Counter(
            error_kind(outcome.error or "") for outcome in store.outcomes(job) if outcome.status == "errored"
        )
        kinds += known_kinds or Counter({UNKNOWN_KIND: num_errored})
    return dict(kinds.most_common())


# -------------------------------------------------------------------------------------------------- what measures say


def find_measure(spec: MeasureJob) -> Any:
    """Return one of rbench's measures, or None for that of a user, whose folder is not known."""
    return None if spec.source else _open_measure(spec.what.name)


@cache
def _open_measure(name: str) -> Any:
    try:
        return find("measures", name).open()
    except RbenchError:
        return None


def missing_number(record: Record) -> str | None:
    """Return why a complete record of an attack or a measure cannot enter a table, or None if it can.

    The reason is a number that it lacks, or numbers that contradict each other.
    """
    if record.job.measuring is None or record.status != "complete":
        return lacking_of_attack(record)
    score_names = {score.name for score in record.scores}
    measure = find_measure(record.job.measuring)
    required: tuple[str, ...] = measure.required_scores if measure is not None else ()
    name = next((name for name in required if name not in score_names), None)
    return None if name is None else f"the record of {record.job.name} has no {name}."


# ------------------------------------------------------------------------------------------------- weights of results


def weights_behind(record: Record, key: str) -> frozenset[str]:
    """Return the hashes by which a record names the weights behind the job of this key, which its own job needs."""
    job, source = record.job, record.provenance
    roles = {role for role, needed in job.needs.items() if needed == key}
    hashes = {source.inputs.get(key)}
    if not job.trains and roles & {"victim", "encoder"}:
        hashes.add(source.weights_hash)
    if "masked_lm" in roles:
        hashes.add(source.resources.get("masked_lm"))
    return frozenset(weights_hash for weights_hash in hashes if weights_hash is not None)


def find_users(plan: Plan, records: Mapping[str, Record], key: str) -> Iterator[tuple[Job, str]]:
    """Yield each complete job that says on which weights of the job of this key it stands, with their hash.

    The first is the job itself, if it is complete.
    """
    return ((job, weights_hash) for job, needed, weights_hash in _stated_weights(plan, records) if needed == key)


def find_mixed_weights(plan: Plan, records: Mapping[str, Record]) -> dict[str, str]:
    """Say by job which results stand on other weights than the records of the jobs that they need name.

    Where such a job has no record, the first result that stands on it counts as right.
    """
    jobs = {job.key: job for job in plan.jobs}
    # Which training is right cannot be known. The weights that the first job names count, since plans list trainings
    # before what stands on them.
    expected: dict[str, str] = {}
    mixed_jobs: dict[str, str] = {}
    for job, needed, weights_hash in _stated_weights(plan, records):  # a job comes after those that it needs
        if weights_hash != expected.setdefault(needed, weights_hash):
            mixed_jobs.setdefault(
                job.key,
                f"{job.name} stands on other weights of {jobs[needed].name} ({weights_hash[:SHORT_DIGITS]}) than the "
                f"rest of the RUN ({expected[needed][:SHORT_DIGITS]}).",
            )
    return mixed_jobs


def _stated_weights(plan: Plan, records: Mapping[str, Record]) -> Iterator[tuple[Job, str, str]]:
    """Yield what complete jobs say, in the plan's order: the job, the key of a job, and the hash of its weights."""
    for job in plan.jobs:
        record = records.get(job.key)
        if record is None or record.status != "complete":
            continue
        if record.provenance.weights_hash is not None:
            yield job, job.key, record.provenance.weights_hash
        for needed in dict.fromkeys(job.needs.values()):
            yield from ((job, needed, weights_hash) for weights_hash in sorted(weights_behind(record, needed)))


def find_leftovers(store: RunStore, plan: Plan) -> list[Path]:
    """Return the folders of jobs that are not in the plan. An earlier version of the suite left them."""
    planned = {store.folder(job) for job in plan.jobs}
    return sorted({file.parent for _, file in store.stage_files() if ".json" in file.name} - planned)


def describe_leftovers(run: Path, count: int) -> str:
    """Say in one line, with the remedy, that a RUN has so many `find_leftovers`."""
    what, they, them = ("folder is of a job", "it", "it") if count == 1 else ("folders are of jobs", "they", "them")
    return (
        f"{count} {what} that this suite does not have: no table shows {them}. rbench verify {run} names {them}, and "
        f"{they} may be deleted."
    )
