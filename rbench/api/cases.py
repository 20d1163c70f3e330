"""Find texts of contrast sets that one victim gets right and another gets wrong (CLINE, section 2.3, Table 3).

Cases come from the predictions that a RUN stores, which hold ids and no texts. The texts are read from the contrast set
if it still is the one that was classified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.errors import ResourceError, StoreError
from rbench.spec import CONTRAST, ContrastSpec, Job, MeasureJob, Plan, Prediction
from rbench.storage.runs import Store
from rbench.storage.standing import standing
from rbench.tables.aggregate import plan_of
from rbench.tasks import Bundle, open_contrast


@dataclass(frozen=True)
class Case:
    """An edit of a contrast set that one victim gets right and the other gets wrong."""

    bundle: str
    example_id: str
    label: int
    wrong: tuple[int, ...]
    """What the victim that errs predicts, for each seed in which this is a case."""
    original: tuple[str, ...] | None = None
    """The bundle's original, in the task's columns; None where the texts are not known."""
    edit: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Cases:
    """The cases of one contrast set, those of most seeds first."""

    set: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    seeds: int
    """How many pairs of victims were compared, each with the same seeds."""
    edits: int
    """How many edits each victim classified."""
    cases: tuple[Case, ...]
    reverse: int
    """How many edits are cases the other way round, with the first victim wrong and the second right."""
    without_texts: str = ""
    """Why the texts are not known; empty where they are."""


def cases(
    run: Path, right: str, wrong: str, *, contrast_set: str | None = None, data: Sequence[Path] = ()
) -> list[Cases]:
    """Return the cases of each contrast set on which both victims were evaluated, or of one set.

    Args:
        right, wrong: the victims, as `ENCODER/STRATEGY`, or `ENCODER` where the RUN has one strategy of it.
        data: data folders, searched first to last for the texts.

    Raises:
        StoreError: `run` is not a RUN, it has no such victim or set, or the evaluations are not done.
    """
    plan = plan_of(store := Store(run))
    jobs = [job for job in plan.jobs if job.what == CONTRAST]
    if not jobs:
        raise StoreError(f"{run} has no predictions on contrast sets: its suite has no `evaluate: [contrast]`")
    there = list(dict.fromkeys(job.parts[3] for job in jobs))
    if contrast_set is not None and contrast_set not in there:
        raise StoreError(f"{run} has no contrast set {contrast_set}; it has {', '.join(there)}")
    one, other = (_victim(name, jobs, plan) for name in (right, wrong))
    if one == other:
        raise StoreError(f"{right} and {wrong} are the same victim; name two")
    done = standing(store, plan).done
    found = []
    for name in there if contrast_set is None else [contrast_set]:
        pairs = _pairs([job for job in jobs if job.parts[3] == name and job.key in done], one, other, plan)
        if pairs:
            found.append(_of_set(name, pairs, store, data))
    if not found:
        raise StoreError(
            f"{run} has no contrast set on which both {right} and {wrong} are evaluated with the same seed"
        )
    return found


Victim = tuple[str, str]
"""Encoder and strategy."""


def _of(job: Job, plan: Plan) -> Victim:
    return plan.draw(job.parts[0]).encoder, job.parts[2]


def _victim(name: str, jobs: Sequence[Job], plan: Plan) -> Victim:
    """Return the victim that a name means."""
    known = list(dict.fromkeys(_of(job, plan) for job in jobs))
    exact = [victim for victim in known if "/".join(victim) == name]
    found = exact or [victim for victim in known if victim[0] == name]
    if len(found) == 1:
        return found[0]
    said = "no such victim" if not found else f"{len(found)} victims of that name"
    raise StoreError(f"{name}: {said}; there are {', '.join('/'.join(victim) for victim in found or known)}")


def _pairs(jobs: Sequence[Job], one: Victim, other: Victim, plan: Plan) -> list[tuple[Job, Job]]:
    """Return the jobs of both victims with the same seeds. One that rbench does not train has no training seed."""

    def alike(a: Job, b: Job) -> bool:
        seeds = {seed for job in (a, b) if (seed := plan.draw(job.parts[0]).train_seed) is not None}
        return a.seed == b.seed and len(seeds) < 2

    first, second = ([job for job in jobs if _of(job, plan) == victim] for victim in (one, other))
    return [(a, b) for a in first for b in second if alike(a, b)]


def _of_set(name: str, pairs: Sequence[tuple[Job, Job]], store: Store, data: Sequence[Path]) -> Cases:
    spec = pairs[0][0].measuring
    assert spec is not None
    texts, why = _texts(spec, data)
    found: dict[str, list[Prediction]] = {}
    edits: set[str] = set()
    reverse: set[str] = set()
    for a, b in pairs:
        theirs = {one.example_id: one for one in store.predictions(b)}
        for ours in (one for one in store.predictions(a) if not one.original):
            edits.add(ours.example_id)
            first, second = (one.prediction == one.label for one in (ours, theirs[ours.example_id]))
            if first and not second:
                found.setdefault(ours.example_id, []).append(theirs[ours.example_id])
            elif second and not first:
                reverse.add(ours.example_id)
    made = [
        Case(
            bundle=those[0].bundle,
            example_id=name_of,
            label=those[0].label,
            wrong=tuple(one.prediction for one in those),
            original=texts.get((those[0].bundle, None)),
            edit=texts.get((those[0].bundle, name_of)),
        )
        for name_of, those in found.items()
    ]
    made.sort(key=lambda case: -len(case.wrong))  # a stable sort: equal ones stay in the set's order
    return Cases(name, spec.task.columns, spec.task.labels, len(pairs), len(edits), tuple(made), len(reverse), why)


def _texts(spec: MeasureJob, data: Sequence[Path]) -> tuple[dict[tuple[str, str | None], tuple[str, ...]], str]:
    """Return the texts by bundle and edit (None: the original), and why there are none."""
    assert isinstance(spec.set, ContrastSpec)
    try:
        rows = open_contrast(spec.set, spec.task, data)
    except ResourceError as error:
        return {}, f"Ids only: {error}"
    if rows.fingerprint != spec.data_fingerprint:
        return {}, f"Ids only: {spec.set.name} is no longer the set that was classified ({rows.origin})."
    return dict(_named(rows.bundles)), ""


def _named(bundles: Sequence[Bundle]) -> Iterator[tuple[tuple[str, str | None], tuple[str, ...]]]:
    for bundle in bundles:
        yield (bundle.id, None), bundle.original.texts
        yield from (((bundle.id, edit.id), edit.texts) for edit in bundle.edits)
