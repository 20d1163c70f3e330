"""One attack job, its record and its outcomes, made without running anything."""

from __future__ import annotations

from hypothesis import strategies as st

from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    Job,
    Outcome,
    Provenance,
    Record,
    ResourceSet,
    Score,
    Suite,
    TaskSpec,
)
from rbench.store.runs import PartialOutcomes, RunStore


def make_job(attack: str = "pwws", seed: int = 0, encoder: str = "minilm", task: str = "mr") -> Job:
    spec = AttackJob(
        encoder=encoder,
        strategy=Choice(name="clean"),
        task=TaskSpec(name=task, kind="single", columns=("text",), labels=("neg", "pos")),
        data_fingerprint="d",
        attack=AttackSpec(name=attack),
        resources=ResourceSet(name="mini"),
        resource_fingerprints={},
        num_examples=3,
    )
    return Job.make(spec, (encoder, task, "clean", attack), {}, seed)


def make_record(job: Job, status: str = "complete") -> Record:
    return Record(
        job=job, status=status, scores=(Score(name="asr", value=0.5, n=2),), provenance=Provenance(rbench="0")
    )


def make_outcome(example_id: str, **changes: object) -> Outcome:
    return Outcome(**{"example_id": example_id, "status": "failed", "original": ("a film",), "label": 1, **changes})


JOB = make_job()
SUITE = Suite(name="s", encoders=("minilm",), tasks=("mr",), attacks=(Choice(name="pwws"),))

number_strategy = st.floats(allow_nan=False, allow_infinity=False)
text_strategy = st.lists(
    st.text() | st.sampled_from(["a\nb", "\u2028\u2029\x85", '"\\\\"', "\x00", "𝔘"]), min_size=1, max_size=2
)
outcome_strategy = st.builds(
    Outcome,
    example_id=st.text(max_size=5),
    status=st.sampled_from(["succeeded", "failed", "skipped", "errored"]),
    original=text_strategy.map(tuple),
    perturbed=st.none() | text_strategy.map(tuple),
    label=st.integers(-5, 5),
    num_queries=st.integers(0, 10**9),
    perturbed_share=st.none() | st.floats(0, 1),
    similarity=st.none() | number_strategy,
    truncated=st.booleans(),
    seconds=number_strategy,
    error=st.none() | st.text(),
)


def open_partial_outcomes(store: RunStore, job: Job = JOB) -> PartialOutcomes:
    """The outcomes of a job as a process opens them that takes over what another one began."""
    return PartialOutcomes(store, job, "abc", "new", lambda writer, outcome: False)
