"""Verify a RUN: its records, outcomes and predictions are as they were written, and agree with each other.

`verify` parses every record and computes its key from its content. It reads every line beside the record and computes
the line's checksum and the file's digest. Results that stand on other weights than the rest of the RUN are damage, too.
Tables, figures and reports in the folder are derived from all this, and are not looked at. Nothing is changed.

Numbers of a record are computed again, from the lines beside it and from each other. Everything that follows from the
lines is compared: all scores with their intervals, counts and health of an attack, and what a measure's file says
(`unlike`). What a training measured about itself stands in its record alone; there what follows from other numbers is
compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from rbench.errors import StoreError
from rbench.schema import PART_ACCURACY, AttackJob, Health, Job, MeasureJob, Outcome, Record, Score
from rbench.score import Deviations, Share, attack_counts, attack_health, attack_scores, near_chance, wilson
from rbench.store.job_status import lacking, measure_of, mixed, redo, strangers
from rbench.store.runs import Found, Store
from rbench.store.runs.packed import DERIVED
from rbench.store.runs.store import folder_path

State = Literal["verified", "damaged", "not done"]
DELETE = "Delete the record, and the same rbench run makes it again."
RESUME = "The same rbench run repairs that."
CLOSE = 1e-9
"""Relative tolerance, because the order of a sum changes its rounding."""


@dataclass(frozen=True)
class Finding:
    """One line of the report: what is wrong with a file, and what to do."""

    text: str
    damage: bool = True
    """Whether something is wrong. If not, the finding is only information."""
    refused: bool = False
    """Whether nothing is damaged, and the RUN may not stand on a leaderboard."""

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "refused" if self.refused else "damaged" if self.damage else "note"


@dataclass(frozen=True)
class Verified:
    """The result: findings in the plan's order, and the number of jobs in each state."""

    run: Path
    findings: tuple[Finding, ...]
    counts: Mapping[State, int]
    derived: tuple[str, ...] = ()
    """The files and folders in the RUN's folder that are derived from its records, and are not verified."""

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
    sound: dict[str, Record] = {}
    for job in plan.jobs:
        found = store.look(job)
        states[job.key], wrong = _job(store, job, found)
        findings += wrong
        if found.record is not None:
            sound[job.key] = found.record
    unlike = mixed(plan, sound)
    for job in (job for job in plan.jobs if job.key in unlike):
        states[job.key] = "damaged"
        findings.append(Finding(f"{unlike[job.key]} {redo(store, job)}"))
    counts: Counter[State] = Counter(dict.fromkeys(get_args(State), 0))
    counts.update(states.values())
    said = "\n".join(finding.text for finding in findings)
    strange = (
        Finding(f"{folder} belongs to no job of the plan: no table shows it, and it may be deleted.", damage=False)
        for folder in strangers(store, plan)
    )
    from rbench.store import judged  # a run that checks single records has no need of it

    foreign = (text for text in store.foreign(map(store.folder, plan.jobs)) if text not in said)
    return Verified(
        store.root,
        (*findings, *map(Finding, judged.wrong(store, plan)), *map(Finding, foreign), *strange),
        counts,
        tuple(name for name in DERIVED if store.opened().kind(store.root / name) is not None),
    )


def _job(store: Store, job: Job, found: Found) -> tuple[State, list[Finding]]:
    """Return the state of one job, whose record was found so, and its findings."""
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        said = f"{store.root / 'plan.json'}: the key of {job.name} is not that of its content. Run the suite again."
        return "damaged", [Finding(said)]
    record = found.record
    complete = record is not None and record.status == "complete"
    wrong = [found.problem] if found.problem is not None else []
    outcomes: list[Outcome] = []
    if found.problem is None:  # the job's record, if any, matches the file
        reads, remedy = store.reads(job), DELETE if complete else RESUME
        read = reads[0]  # outcomes.jsonl itself
        outcomes = read.outcomes
        wrong += [f"{one.damage}. {remedy}" for one in reads if one.damage]
        ids = Counter(line.outcome.example_id for line in read.lines if line.outcome is not None)
        again = [name for name, n in ids.items() if n > 1]
        if again:
            more = f", and {len(again) - 1} more are" if len(again) > 1 else ""
            wrong.append(f"{read.path}: example {again[0]} is there more than once{more}. {remedy}")
    if record is not None and complete and not wrong:
        wrong = [f"{store.folder(job) / 'record.json'}: {text} {DELETE}" for text in _wrong(store, record, outcomes)]
    if wrong:
        return "damaged", [Finding(text) for text in wrong]
    return ("verified" if complete else "not done"), []


def _wrong(store: Store, record: Record, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say what is wrong within a complete record, or between it and the lines beside it, such as these outcomes."""
    job = record.job
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        yield "its key is not that of its content."
    elif job.stores is not None and getattr(record, job.stores) is None:
        yield f"it has no digest of its {job.stores}."
    elif (lack := lacking(record)) is not None:
        yield lack
    else:
        try:
            yield from unlike(store, record, outcomes)
        except (StoreError, ValueError, KeyError) as error:
            yield f"{error}."


# ----------------------------------------------------------------------------------------------------- numbers again


def unlike(store: Store, record: Record, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say which numbers of a complete record are not those of the lines beside it.

    Args:
        outcomes: those of an attack, which the caller has read.

    Raises:
        StoreError: the lines cannot be read.
        ValueError: the lines are not what a job of this kind writes.
    """
    job, spec = record.job, record.job.spec
    if isinstance(spec, AttackJob):
        yield from _attack(spec, record, outcomes)
    elif isinstance(spec, MeasureJob):
        yield from _measured(store, job, spec, record)
    elif job.victim is not None:
        yield from _victim(record)


def _attack(spec: AttackJob, record: Record, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if len(outcomes) != spec.num_examples:
        yield f"it has {len(outcomes)} outcomes, but its job has {spec.num_examples} examples."
    more = Deviations.of(outcomes).scores() if spec.task.of_kind.has_scores else ()
    counts = attack_counts(outcomes)
    yield from unequal(record, (*attack_scores(outcomes, spec.task.has_oracle).values(), *more), counts)
    if surplus := record.counts.keys() - counts.keys():
        yield f"it counts {', '.join(sorted(surplus))}, of which there are none."
    if not _same_health(record.health or Health(), attack_health(outcomes)):
        yield "its health is not that of the lines beside the record."


def _measured(store: Store, job: Job, spec: MeasureJob, record: Record) -> Iterator[str]:
    """Let the measure's file compare, if it does; of rows their number is compared in any case."""
    lines = getattr(store, spec.stores)(job)
    measure = measure_of(spec)
    unlike = measure.unlike(record, lines) if measure is not None else None
    if unlike is not None:
        yield from unlike
    elif spec.stores == "rows" and not (spec.source and record.scores):
        yield from unequal(record, (), {"rows": len(lines)})


def _victim(record: Record) -> Iterator[str]:
    for score in record.scores:
        if score.name.startswith(PART_ACCURACY) and score.value is not None:
            low, high = wilson(score.value * score.n, score.n) or (None, None)
            yield from _differing(score, score.model_copy(update={"low": low, "high": high}), CLOSE)
    if record.right is not None:
        answered = record.right.replace("-", "")
        right = Share(answered.count("1"), len(answered))
        stated = [(score.value, score.n) for score in record.scores if score.name == "test_accuracy"]
        if stated != [(right.mean, right.n)]:
            yield f"its rows give a test accuracy of {right.hits} of {right.n}, and it has another one."
    values = record.health.values if record.health is not None else {}
    accuracy = next((score for score in record.scores if score.name.endswith("_accuracy")), None)
    if record.health is None or accuracy is None or "majority share" not in values:
        return
    ours = near_chance(accuracy, values["majority share"], accuracy.name.removesuffix("_accuracy"))
    theirs = Health(
        values={name: value for name, value in values.items() if name in ours.values},
        flags=tuple(raised for raised in record.health.flags if raised.flag == "near chance"),
    )
    if not _same_health(theirs, ours):
        yield f"its health is not that of {accuracy.name} {accuracy.value}."


def unequal(
    record: Record, scores: Iterable[Score], counts: Mapping[str, int], *, absolute: float = CLOSE
) -> Iterator[str]:
    """Say which scores a record lacks or has too many, and which of its numbers differ from these."""
    stored, ours = {score.name: score for score in record.scores}, {score.name: score for score in scores}
    if len(stored) != len(record.scores) or stored.keys() != ours.keys():
        yield f"it has the scores {', '.join(s.name for s in record.scores)}, but its lines give {', '.join(ours)}."
    for name in (name for name in stored if name in ours):
        yield from _differing(stored[name], ours[name], absolute)
    for name, n in counts.items():
        if record.counts.get(name) != n:
            yield f"it counts {record.counts.get(name, 'no')} {name}, but there are {n}."


def _differing(stored: Score, ours: Score, absolute: float) -> Iterator[str]:
    for field in ("value", "n", "low", "high", "sd", "units"):
        this, other = getattr(ours, field), getattr(stored, field)
        unknown = this is None or other is None
        if this is not other if unknown else not math.isclose(this, other, rel_tol=CLOSE, abs_tol=absolute):
            yield f"{stored.name} has the {field} {other}, but the lines beside the record give {this}."
            return


def _same_health(stored: Health, ours: Health) -> bool:
    return (
        stored.values.keys() == ours.values.keys()
        and all(math.isclose(value, ours.values[name], rel_tol=CLOSE) for name, value in stored.values.items())
        and stored.flags == ours.flags
    )
