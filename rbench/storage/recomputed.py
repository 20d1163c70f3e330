"""Compute the numbers of a record again, from the lines beside it and from each other.

Everything that follows from the lines is compared: all scores with their intervals, counts and health of an attack,
and what a measure's file says (`unlike`). What a training measured about itself stands in its record alone; there what
follows from other numbers is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from rbench.score import Deviations, attack_counts, attack_health, attack_scores, near_chance, wilson
from rbench.spec import PART_ACCURACY, AttackJob, Health, Job, MeasureJob, Record, Score
from rbench.storage.measures import measure_of
from rbench.storage.runs import Store

CLOSE = 1e-9
"""Relative tolerance, because the order of a sum changes its rounding."""


def unlike(store: Store, record: Record) -> Iterator[str]:
    """Say which numbers of a complete record are not those of the lines beside it.

    Raises:
        StoreError: the lines cannot be read.
        ValueError: the lines are not what a job of this kind writes.
    """
    job, spec = record.job, record.job.spec
    if isinstance(spec, AttackJob):
        yield from _attack(store, job, spec, record)
    elif isinstance(spec, MeasureJob):
        yield from _measured(store, job, spec, record)
    elif job.victim is not None:
        yield from _victim(record)


def _attack(store: Store, job: Job, spec: AttackJob, record: Record) -> Iterator[str]:
    outcomes = store.outcomes(job)
    if len(outcomes) != spec.num_examples:
        yield f"it has {len(outcomes)} outcomes, but its job has {spec.num_examples} examples."
    more = Deviations.of(outcomes).scores() if spec.task.kind == "sts" else ()
    counts = attack_counts(outcomes)
    yield from unequal(record, (*attack_scores(outcomes, spec.task.has_oracle).values(), *more), counts)
    if surplus := record.counts.keys() - counts.keys():
        yield f"it counts {', '.join(sorted(surplus))}, of which there are none."
    if not _same_health(record.health or Health(), attack_health(outcomes)):
        yield "its health is not that of the lines beside the record."


def _measured(store: Store, job: Job, spec: MeasureJob, record: Record) -> Iterator[str]:
    """Let the measure's file compare, if it does; of rows their number is compared in any case."""
    lines = getattr(store, spec.stores)(job)
    if (compare := getattr(measure_of(spec), "unlike", None)) is not None:
        yield from compare(record, lines)
    elif spec.stores == "rows" and not (spec.source and record.scores):
        yield from unequal(record, (), {"rows": len(lines)})


def _victim(record: Record) -> Iterator[str]:
    for score in record.scores:
        if score.name.startswith(PART_ACCURACY) and score.value is not None:
            low, high = wilson(score.value * score.n, score.n) or (None, None)
            yield from _differing(score, score.model_copy(update={"low": low, "high": high}), CLOSE)
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
