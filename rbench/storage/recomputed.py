"""Compute the numbers of a record again, from the lines beside it and from each other.

Everything that follows from the lines is compared: all scores with their intervals, counts and health of an attack,
the scores and sizes of contrast sets and adversarial sets, the correlations of an evaluation, the rows of a measure.
What a training measured about itself stands in its record alone; there what follows from other numbers is compared.
Rows keep cosines and gold scores with 32 bits; correlations are compared to `ROUNDED`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from rbench.score import (
    Deviations,
    adversarial_scores,
    attack_counts,
    attack_health,
    attack_scores,
    contrast_scores,
    judged,
    near_chance,
    set_scores,
    unpacked_numbers,
    wilson,
)
from rbench.spec import (
    PART_ACCURACY,
    AdversarialJob,
    AttackJob,
    ContrastJob,
    EvaluateJob,
    FinetuneJob,
    Health,
    Job,
    MeasureJob,
    Record,
    Score,
    VictimJob,
)
from rbench.storage.runs import Store

CLOSE = 1e-9
"""Relative tolerance, because the order of a sum changes its rounding."""
ROUNDED = 2e-4
"""Absolute tolerance of correlations. Gold scores that differ by less than 32 bits hold become ties."""


def unlike(store: Store, record: Record) -> Iterator[str]:
    """Say which numbers of a complete record are not those of the lines beside it.

    Raises:
        StoreError: the lines cannot be read.
        ValueError: the lines are not what a job of this kind writes.
    """
    job, spec = record.job, record.job.spec
    if isinstance(spec, AttackJob):
        yield from _attack(store, job, spec, record)
    elif isinstance(spec, ContrastJob | AdversarialJob):
        yield from _predictions(store, job, spec, record)
    elif isinstance(spec, EvaluateJob):
        yield from _evaluation(store, job, record)
    elif isinstance(spec, MeasureJob):
        yield from _unequal(record, (), {"rows": len(store.rows(job))})
    elif isinstance(spec, FinetuneJob | VictimJob):
        yield from _victim(record)


def _attack(store: Store, job: Job, spec: AttackJob, record: Record) -> Iterator[str]:
    outcomes = store.outcomes(job)
    if len(outcomes) != spec.num_examples:
        yield f"it has {len(outcomes)} outcomes, but its job has {spec.num_examples} examples."
    more = Deviations.of(outcomes).scores() if spec.task.kind == "sts" else ()
    counts = attack_counts(outcomes)
    yield from _unequal(record, (*attack_scores(outcomes, spec.task.has_oracle).values(), *more), counts)
    if surplus := record.counts.keys() - counts.keys():
        yield f"it counts {', '.join(sorted(surplus))}, of which there are none."
    if not _same_health(record.health or Health(), attack_health(outcomes)):
        yield "its health is not that of the lines beside the record."


def _predictions(store: Store, job: Job, spec: ContrastJob | AdversarialJob, record: Record) -> Iterator[str]:
    predictions = store.predictions(job)
    scored = contrast_scores if isinstance(spec, ContrastJob) else adversarial_scores
    names = ("bundles", "edits") if isinstance(spec, ContrastJob) else ("rows", "changed")
    edits = sum(not one.original for one in predictions)
    sizes = zip(names, (len(predictions) - edits, edits), strict=True)
    yield from _unequal(record, scored(judged(predictions)) if predictions else (), dict(sizes))


def _evaluation(store: Store, job: Job, record: Record) -> Iterator[str]:
    """Compare the correlations of all pairs. Rows do not say of which subset a pair is, so of subsets only their n."""
    (row,) = store.rows(job)
    n = int(row.numbers["n"] or 0)
    cosines, gold = (unpacked_numbers(row.names[name], n).tolist() for name in ("cosines", "gold"))
    whole = set_scores(cosines, gold, ())
    subsets = {one.name: [s for s in record.scores if s.name.startswith(f"{one.name}:")] for one in whole}
    yield from _unequal(record, (*whole, *chain(*subsets.values())), {"n": n}, absolute=ROUNDED)
    for name, found in subsets.items():
        if found and (pairs := sum(score.n for score in found)) != n:
            yield f"the subsets of {name} have {pairs} pairs, but there are {n}."


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


def _unequal(
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
