"""Verify a RUN: its records, outcomes and predictions are as they were written, and agree with each other.

`verify` parses every record and computes its key from its content. It reads every line beside the record and computes
the line's checksum and the file's digest. It computes scores, counts and health again from the lines (`recomputed`) and
compares them with the record. Results that stand on other weights than the rest of the RUN are damage, too. Nothing is
changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from rbench.errors import StoreError
from rbench.spec import Job, Plan, Record
from rbench.storage.measures import lacking
from rbench.storage.mixed import mixed
from rbench.storage.recomputed import unlike
from rbench.storage.runs import Store
from rbench.storage.runs.store import folder_path
from rbench.storage.standing import redo

State = Literal["verified", "damaged", "not done"]
DELETE = "Delete the record, and the same rbench run makes it again."
RESUME = "The same rbench run repairs that."


@dataclass(frozen=True)
class Finding:
    """One line of the report: what is wrong with a file, and what to do."""

    text: str
    damage: bool = True
    """Whether something is wrong. If not, the finding is only information."""


@dataclass(frozen=True)
class Verified:
    """The result: findings in the plan's order, and the number of jobs in each state."""

    run: Path
    findings: tuple[Finding, ...]
    counts: Mapping[State, int]

    @property
    def damaged(self) -> bool:
        """Whether anything is damaged."""
        return any(finding.damage for finding in self.findings)


def verify(run: Path | str) -> Verified:
    """Read and check everything in a RUN. Raises StoreError if `run` is not a RUN or its plan is damaged."""
    store = Store(folder_path(run))
    plan = store.plan()
    if plan is None:
        raise StoreError(f"{store.root} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
    states: dict[str, State] = {}
    findings: list[Finding] = []
    for job in plan.jobs:
        states[job.key], found = _job(store, job)
        findings += found
    sound = {job.key: record for job in plan.jobs if (record := store.look(job).record) is not None}
    for key, text in mixed(plan, sound).items():
        states[key] = "damaged"
        findings.append(Finding(f"{text} {redo(store, plan.job(key))}"))
    counts: Counter[State] = Counter(dict.fromkeys(get_args(State), 0))
    counts.update(states.values())
    said = "\n".join(finding.text for finding in findings)
    foreign = (text for text in store.foreign(map(store.folder, plan.jobs)) if text not in said)
    return Verified(
        store.root,
        (*findings, *map(Finding, foreign), *(_strange(folder) for folder in strangers(store, plan))),
        counts,
    )


def _job(store: Store, job: Job) -> tuple[State, list[Finding]]:
    """Return the state of one job and its findings."""
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        said = f"{store.root / 'plan.json'}: the key of {job.name} is not that of its content. Run the suite again."
        return "damaged", [Finding(said)]
    found = store.look(job)
    record = found.record
    complete = record is not None and record.status == "complete"
    wrong = [found.problem] if found.problem is not None else _linewise(store, job, DELETE if complete else RESUME)
    if record is not None and complete and not wrong:
        wrong = [f"{store.folder(job) / 'record.json'}: {text} {DELETE}" for text in _wrong(store, record)]
    if wrong:
        return "damaged", [Finding(text) for text in wrong]
    return ("verified" if complete else "not done"), []


def _linewise(store: Store, job: Job, remedy: str) -> list[str]:
    """Say which outcome lines are damaged or repeated. The job's record, if any, matches the file."""
    read = store.read(job)
    wrong = [f"{one.damage}. {remedy}" for one in store.reads(job) if one.damage]
    ids = Counter(line.outcome.example_id for line in read.lines if line.outcome is not None)
    again = [name for name, n in ids.items() if n > 1]
    if again:
        more = f", and {len(again) - 1} more are" if len(again) > 1 else ""
        wrong.append(f"{read.path}: example {again[0]} is there more than once{more}. {remedy}")
    return wrong


def _unlisted(record: Record) -> str | None:
    """Say which digest a complete record lacks that jobs of its kind write; None if it lacks none."""
    name = record.job.stores
    return f"it has no digest of its {name}." if name is not None and getattr(record, name) is None else None


def _wrong(store: Store, record: Record) -> Iterator[str]:
    """Say what is wrong within a complete record, or between it and the lines beside it."""
    job = record.job
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        yield "its key is not that of its content."
    elif (lack := _unlisted(record) or lacking(record)) is not None:
        yield lack
    else:
        try:
            yield from unlike(store, record)
        except (StoreError, ValueError, KeyError) as error:
            yield f"{error}."


def strangers(store: Store, plan: Plan) -> list[Path]:
    """Return the folders of jobs that are not in the plan. An earlier version of the suite left them."""
    own = {store.folder(job) for job in plan.jobs}
    return sorted({file.parent for _, file in store.of_stages() if ".json" in file.name} - own)


def of_strangers(run: Path, count: int) -> str:
    """Say in one line, with the remedy, that a RUN has so many `strangers`."""
    what, they, them = ("folder is of a job", "it", "it") if count == 1 else ("folders are of jobs", "they", "them")
    return (
        f"{count} {what} of an earlier suite here: no table shows {them}. rbench verify {run} names {them}, and {they} "
        "may be deleted."
    )


def _strange(folder: Path) -> Finding:
    said = f"{folder} belongs to no job of the plan: no table shows it, and it may be deleted."
    return Finding(said, damage=False)
