"""Verify a RUN: its records, outcomes and predictions are as they were written, and agree with each other.

`verify` parses every record and computes its key from its content. It reads every line beside the record and computes
the line's checksum and the file's digest. Results that stand on other weights than the rest of the RUN are damage, too.
Tables, figures and reports in the folder are derived from all this, and are not looked at. Nothing is changed.

Numbers of a record are computed again, from the lines beside it and from each other. Everything that follows from the
lines is compared: all scores with their intervals, counts and health of an attack, and what a measure's file says
(`find_mismatches`). What a training measured about itself stands in its record alone; there what follows from other
numbers is compared.
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
from rbench.score import Proportion, StsDeviations, attack_health, attack_scores, count_outcomes, near_chance, wilson
from rbench.store.job_status import find_leftovers, find_measure, find_mixed_weights, missing_number, rerun_hint
from rbench.store.runs import RunStore, StoredRecord
from rbench.store.runs.packed import DERIVED
from rbench.store.runs.store import folder_path

JobState = Literal["verified", "damaged", "not done"]
HOW_TO_DELETE = "Delete the record, and the same rbench run makes it again."
HOW_TO_RESUME = "The same rbench run repairs that."
CLOSE_WITHIN = 1e-9
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
class VerifyReport:
    """The result: findings in the plan's order, and the number of jobs in each state."""

    run: Path
    findings: tuple[Finding, ...]
    counts: Mapping[JobState, int]
    derived: tuple[str, ...] = ()
    """The files and folders in the RUN's folder that are derived from its records, and are not verified."""

    @property
    def damaged(self) -> bool:
        """Whether anything is damaged."""
        return any(finding.damage for finding in self.findings)


def verify(run: Path | str) -> VerifyReport:
    """Read and check everything in a RUN. Raises StoreError if `run` is not a RUN or its plan is damaged."""
    store = RunStore(folder_path(run))
    plan = store.existing_plan()
    states: dict[str, JobState] = {}
    findings: list[Finding] = []
    sound_records: dict[str, Record] = {}
    for job in plan.jobs:
        stored = store.look(job)
        states[job.key], job_findings = _check_job(store, job, stored)
        findings += job_findings
        if stored.record is not None:
            sound_records[job.key] = stored.record
    # Records that are sound one by one may still name different weights of one training. This needs all of them.
    mixed_weights = find_mixed_weights(plan, sound_records)
    for job in (job for job in plan.jobs if job.key in mixed_weights):
        states[job.key] = "damaged"
        findings.append(Finding(f"{mixed_weights[job.key]} {rerun_hint(store, job)}"))
    counts: Counter[JobState] = Counter(dict.fromkeys(get_args(JobState), 0))
    counts.update(states.values())
    all_texts = "\n".join(finding.text for finding in findings)
    leftovers = (
        Finding(f"{folder} belongs to no job of the plan: no table shows it, and it may be deleted.", damage=False)
        for folder in find_leftovers(store, plan)
    )
    from rbench.store import judged  # a run that checks single records has no need of it

    foreign = (text for text in store.foreign(map(store.folder, plan.jobs)) if text not in all_texts)
    return VerifyReport(
        store.root,
        (*findings, *map(Finding, judged.find_mistakes(store, plan)), *map(Finding, foreign), *leftovers),
        counts,
        tuple(name for name in DERIVED if store.opened().kind(store.root / name) is not None),
    )


def _check_job(store: RunStore, job: Job, stored: StoredRecord) -> tuple[JobState, list[Finding]]:
    """Return the state of one job, whose record was found so, and its findings."""
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        problem = f"{store.root / 'plan.json'}: the key of {job.name} is not that of its content. Run the suite again."
        return "damaged", [Finding(problem)]
    record = stored.record
    complete = record is not None and record.status == "complete"
    mistakes = [stored.problem] if stored.problem is not None else []
    outcomes: list[Outcome] = []
    if stored.problem is None:  # the job's record, if any, matches the file
        reads, remedy = store.reads(job), HOW_TO_DELETE if complete else HOW_TO_RESUME
        read = reads[0]  # outcomes.jsonl itself
        outcomes = read.outcomes
        mistakes += [f"{outcome_lines.damage}. {remedy}" for outcome_lines in reads if outcome_lines.damage]
        ids = Counter(line.outcome.example_id for line in read.lines if line.outcome is not None)
        repeated = [name for name, count in ids.items() if count > 1]
        if repeated:
            others_note = f", and {len(repeated) - 1} more are" if len(repeated) > 1 else ""
            mistakes.append(f"{read.path}: example {repeated[0]} is there more than once{others_note}. {remedy}")
    if record is not None and complete and not mistakes:
        mistakes = [
            f"{store.folder(job) / 'record.json'}: {text} {HOW_TO_DELETE}"
            for text in _find_mistakes(store, record, outcomes)
        ]
    if mistakes:
        return "damaged", [Finding(text) for text in mistakes]
    return ("verified" if complete else "not done"), []


def _find_mistakes(store: RunStore, record: Record, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say what is wrong within a complete record, or between it and the lines beside it, such as these outcomes."""
    job = record.job
    if job.key != Job.make(job.spec, job.parts, job.needs, job.seed).key:
        yield "its key is not that of its content."
    elif job.stores is not None and getattr(record, job.stores) is None:
        yield f"it has no digest of its {job.stores}."
    elif (missing_text := missing_number(record)) is not None:
        yield missing_text
    else:
        try:
            yield from find_mismatches(store, record, outcomes)
        except (StoreError, ValueError, KeyError) as error:
            yield f"{error}."


# ----------------------------------------------------------------------------------------------------- numbers again


def find_mismatches(store: RunStore, record: Record, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say which numbers of a complete record are not those of the lines beside it.

    Args:
        outcomes: those of an attack, which the caller has read.

    Raises:
        StoreError: the lines cannot be read.
        ValueError: the lines are not what a job of this kind writes.
    """
    job, spec = record.job, record.job.spec
    if isinstance(spec, AttackJob):
        yield from _check_attack(spec, record, outcomes)
    elif isinstance(spec, MeasureJob):
        yield from _check_measured(store, job, spec, record)
    elif job.victim is not None:
        yield from _check_victim(record)


def _check_attack(spec: AttackJob, record: Record, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if len(outcomes) != spec.num_examples:
        yield f"it has {len(outcomes)} outcomes, but its job has {spec.num_examples} examples."
    sts_scores = StsDeviations.of(outcomes).scores() if spec.task.of_kind.has_scores else ()
    counts = count_outcomes(outcomes)
    yield from find_unequal(record, (*attack_scores(outcomes, spec.task.has_oracle).values(), *sts_scores), counts)
    if surplus := record.counts.keys() - counts.keys():
        yield f"it counts {', '.join(sorted(surplus))}, of which there are none."
    if not _same_health(record.health or Health(), attack_health(outcomes)):
        yield "its health is not that of the lines beside the record."


def _check_measured(store: RunStore, job: Job, spec: MeasureJob, record: Record) -> Iterator[str]:
    """Let the measure's file compare, if it does; of rows their number is compared in any case."""
    lines = getattr(store, spec.stores)(job)
    measure = find_measure(spec)
    mismatches = measure.unlike(record, lines) if measure is not None else None
    if mismatches is not None:
        yield from mismatches
    elif spec.stores == "rows" and not (spec.source and record.scores):
        yield from find_unequal(record, (), {"rows": len(lines)})


def _check_victim(record: Record) -> Iterator[str]:
    for score in record.scores:
        if score.name.startswith(PART_ACCURACY) and score.value is not None:
            low, high = wilson(score.value * score.n, score.n) or (None, None)
            yield from _find_difference(score, score.model_copy(update={"low": low, "high": high}), CLOSE_WITHIN)
    if record.right is not None:
        answered = record.right.replace("-", "")
        right = Proportion(answered.count("1"), len(answered))
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


def find_unequal(
    record: Record, scores: Iterable[Score], counts: Mapping[str, int], *, absolute: float = CLOSE_WITHIN
) -> Iterator[str]:
    """Say which scores a record lacks or has too many, and which of its numbers differ from these."""
    stored, ours = {score.name: score for score in record.scores}, {score.name: score for score in scores}
    if len(stored) != len(record.scores) or stored.keys() != ours.keys():
        yield f"it has the scores {', '.join(s.name for s in record.scores)}, but its lines give {', '.join(ours)}."
    for name in (name for name in stored if name in ours):
        yield from _find_difference(stored[name], ours[name], absolute)
    for name, count in counts.items():
        if record.counts.get(name) != count:
            yield f"it counts {record.counts.get(name, 'no')} {name}, but there are {count}."


def _find_difference(stored: Score, ours: Score, absolute: float) -> Iterator[str]:
    for field in ("value", "n", "low", "high", "sd", "units"):
        this, other = getattr(ours, field), getattr(stored, field)
        if this is None or other is None:
            same = this is other
        else:
            same = math.isclose(this, other, rel_tol=CLOSE_WITHIN, abs_tol=absolute)
        if not same:
            yield f"{stored.name} has the {field} {other}, but the lines beside the record give {this}."
            return


def _same_health(stored: Health, ours: Health) -> bool:
    return (
        stored.values.keys() == ours.values.keys()
        and all(math.isclose(value, ours.values[name], rel_tol=CLOSE_WITHIN) for name, value in stored.values.items())
        and stored.flags == ours.flags
    )
