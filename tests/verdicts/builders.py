"""Results in which it is stated which examples fall to which attack."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rbench.schema import Job, Outcome, Plan, Provenance, Record
from rbench.score import attack_scores, count_outcomes
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests.tables.conftest import make_plan, make_suite

N = 60
TWO_ATTACKS = ("pwws", {"bertattack": {"max_words": 10}})


def make_results(
    root: Path,
    fell: Mapping[str, Sequence[bool | None]],
    *,
    outcomes: bool | Collection[str] = True,
    seeds: tuple[int, ...] = (0,),
    attacks: tuple[object, ...] = ("pwws",),
    tasks: tuple[str, ...] = ("mr",),
) -> Results:
    """Results of a RUN: `fell` says of each encoder which examples of each task fall to every attack of the suite.

    None: the victim was wrong before. `outcomes`: whether they are kept, or of which encoders.
    """
    kept = fell.keys() if outcomes is True else outcomes or ()
    suite = make_suite(encoders=tuple(fell), tasks=tasks, attacks=attacks, seeds=seeds)
    store = RunStore(root)
    plan: Plan = make_plan(suite)
    store.write_plan(plan)
    for job in plan.jobs:
        attacked = [make_outcome(job, i, succeeded) for i, succeeded in enumerate(fell[job.parts[0]])]
        digest = store.write_outcomes(job, attacked) if job.parts[0] in kept else None
        scores = tuple(attack_scores(attacked).values())
        of = Provenance(rbench="0")
        store.write_record(
            Record(
                job=job,
                status="complete",
                scores=scores,
                counts=count_outcomes(attacked),
                provenance=of,
                outcomes=digest,
            )
        )
    return Results.of(store)


def make_outcome(job: Job, i: int, succeeded: bool | None) -> Outcome:
    if succeeded is None:
        return Outcome(example_id=f"test:{i}", status="skipped", original=("a b c",), label=1, original_prediction=0)
    return Outcome(
        example_id=f"test:{i}",
        status="succeeded" if succeeded else "failed",
        original=("a b c",),
        perturbed=("a b d",),
        label=1,
        original_prediction=1,
        num_queries=200 if succeeded else 10 + i,
        perturbed_share=_share(job.parts[0], i) if succeeded else 0.9 if job.parts[0] == "b" else 0.1,
        seconds=0.1,
    )


def _share(encoder: str, i: int) -> float:
    """The share of words that had to be replaced: some ten points more for a than for others, a bit more for e."""
    if encoder == "e":
        return _share("a", i) + 0.0002 * (i % 2)
    return 0.3 + 0.001 * i if encoder == "a" else 0.2 + 0.001 * (i * i % 17)
