"""Verify a RUN: its records, outcomes and predictions are as they were written, and agree with each other.

`verify` parses every record and computes its key from its content. It reads every line beside the record and computes
the line's checksum and the file's digest. It computes counts and scores from the outcomes and compares them with the
record. AUA = clean x (1 - ASR) must hold. Nothing is changed. A record of an attack, a build or a contrast set that has
no digest cannot be verified: nothing says which lines it was computed from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from rbench.errors import StoreError
from rbench.score import (
    Deviations,
    adversarial_scores,
    attack_counts,
    attack_health,
    attack_scores,
    contrast_scores,
    judged,
    lacking,
)
from rbench.spec import (
    AdversarialJob,
    AttackJob,
    BuildJob,
    ContrastJob,
    Health,
    Job,
    MeasureJob,
    Plan,
    Record,
    Score,
    Stage,
)
from rbench.storage.runs import Store

State = Literal["verified", "cannot be verified", "damaged", "not done"]
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
    store = Store(Path(run))
    plan = store.plan()
    if plan is None:
        raise StoreError(f"{store.root} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
    findings: list[Finding] = []
    counts: Counter[State] = Counter(dict.fromkeys(get_args(State), 0))
    for job in plan.jobs:
        state, found = _job(store, job)
        counts[state] += 1
        findings += found
    return Verified(store.root, (*findings, *_strangers(store, plan)), counts)


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
        texts = [*_recordwise(record)] or [*_recomputed(store, job, record)]
        wrong = [f"{store.folder(job) / 'record.json'}: {text} {DELETE}" for text in texts]
    if wrong:
        return "damaged", [Finding(text) for text in wrong]
    if record is None or not complete:
        return "not done", []
    return ("verified" if _evident(record) else "cannot be verified"), []


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


def _evident(record: Record) -> bool:
    """Whether the record has the digest that its stage needs. Records of the other stages need none."""
    if isinstance(record.job.spec, AttackJob | BuildJob):
        return record.outcomes is not None
    if isinstance(record.job.spec, MeasureJob):
        return record.rows is not None
    return record.predictions is not None if isinstance(record.job.spec, ContrastJob | AdversarialJob) else True


def _recordwise(record: Record) -> Iterator[str]:
    """Say what is wrong within a complete record."""
    job = record.job
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        yield "its key is not that of its content."
    elif (lack := lacking(record)) is not None:
        yield lack
    elif isinstance(job.spec, AttackJob):
        values = {score.name: score.value for score in record.scores}
        clean, asr, aua = (values.get(name) for name in ("clean", "asr", "aua"))
        if clean is None or asr is None or aua is None:  # nothing was attacked
            return
        if not math.isclose(aua, clean * (1 - asr), rel_tol=CLOSE, abs_tol=CLOSE):
            yield f"accuracy under attack is {aua}, but clean accuracy x (1 - ASR) is {clean * (1 - asr)}."


def _recomputed(store: Store, job: Job, record: Record) -> Iterator[str]:
    """Say where the record differs from the lines beside it. Nothing is checked if there are no lines."""
    spec = job.spec
    if isinstance(spec, AttackJob) and (outcomes := store.outcomes(job)):
        oracle = spec.task.has_oracle
        if len(outcomes) != spec.num_examples:
            yield f"it has {len(outcomes)} outcomes, but its job has {spec.num_examples} examples."
        more = Deviations.of(outcomes).scores() if spec.task.kind == "sts" else ()
        scores = (*attack_scores(outcomes, oracle).values(), *more)
        yield from _unequal(record, scores, attack_counts(outcomes, oracle))
        yield from _unwell(record.health, attack_health(outcomes))
    elif isinstance(spec, ContrastJob | AdversarialJob):
        scored, names = (
            (contrast_scores, ("bundles", "edits"))
            if isinstance(spec, ContrastJob)
            else (adversarial_scores, ("rows", "changed"))
        )
        try:
            predictions = store.predictions(job)
            scores = scored(judged(predictions)) if predictions else ()
        except (StoreError, ValueError) as error:
            yield f"{error}."
            return
        edits = sum(not one.original for one in predictions)
        own = dict(zip(names, (len(predictions) - edits, edits), strict=True)) if predictions else {}
        yield from _unequal(record, scores, {name: n for name, n in own.items() if name in record.counts})
    elif isinstance(spec, MeasureJob):
        try:
            yield from _unequal(record, (), {"rows": len(store.rows(job))})
        except StoreError as error:
            yield f"{error}."


def _unequal(record: Record, scores: Iterable[Score], counts: Mapping[str, int]) -> Iterator[str]:
    """Say which numbers of a record differ from the recomputed ones. Metrics newer than the record are skipped."""
    stored = {score.name: score for score in record.scores}
    for score in scores:
        theirs = stored.get(score.name)
        if theirs is None:
            continue
        for field in ("value", "n", "low", "high", "sd", "units"):
            ours, other = getattr(score, field), getattr(theirs, field)
            if other is not None and not (ours is not None and math.isclose(ours, other, rel_tol=CLOSE, abs_tol=CLOSE)):
                yield f"{score.name} has the {field} {other}, but the lines beside the record give {ours}."
                break
    for name, n in counts.items():
        if record.counts.get(name, n) != n:
            yield f"it counts {record.counts[name]} {name}, but there are {n}."


def _unwell(stored: Health | None, ours: Health) -> Iterator[str]:
    """Say whether an attack's health differs from the recomputed one. Records of earlier versions have none."""
    if stored is None:
        return
    same = stored.values.keys() == ours.values.keys() and all(
        math.isclose(value, ours.values[name], rel_tol=CLOSE, abs_tol=CLOSE) for name, value in stored.values.items()
    )
    if not same or [one.flag for one in stored.flags] != [one.flag for one in ours.flags]:
        yield "its health is not that of the lines beside the record."


def _strangers(store: Store, plan: Plan) -> list[Finding]:
    """Find folders of jobs that are not in the plan. An earlier version of the suite left them."""
    own = {store.folder(job) for job in plan.jobs}
    there = {file.parent for stage in get_args(Stage) for file in (store.root / stage).rglob("*.json*")}
    return [
        Finding(f"{folder} belongs to no job of the plan: no table shows it, and it may be deleted.", damage=False)
        for folder in sorted(there - own)
    ]
