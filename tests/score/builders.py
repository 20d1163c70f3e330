"""Outcomes of an attack, and the record of a job with them."""

from __future__ import annotations

from rbench.schema import AttackJob, AttackSpec, Choice, Job, Outcome, Provenance, Record, ResourceSet, TaskSpec
from rbench.score import attack_scores, count_outcomes


def make_outcome(status: str, **more: object) -> Outcome:
    return Outcome(**{"example_id": "x", "status": status, "original": ("a",), "label": 1, **more})


def make_record(outcomes: list[Outcome], generator: str | None = None) -> Record:
    spec = AttackJob(
        encoder="e",
        strategy=Choice(name="clean"),
        task=TaskSpec(name="t", kind="single", columns=("text",), generator=generator),
        data_fingerprint="",
        attack=AttackSpec(name="a"),
        resources=ResourceSet(name="r"),
        resource_fingerprints={},
        num_examples=1,
    )
    job = Job.make(spec, ("e", "t", "clean", "a"), {}, 0)
    return Record(
        job=job,
        status="complete",
        scores=tuple(attack_scores(outcomes).values()),
        counts=count_outcomes(outcomes),
        provenance=Provenance(rbench="0"),
    )
