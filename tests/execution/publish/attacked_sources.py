"""What an adversarial set is published from: an attack job, its victim, record and outcomes."""

from __future__ import annotations

from typing import Any

from rbench.execution.publish.adversarial import AttackedSource
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    EncoderSpec,
    FinetuneJob,
    HubData,
    Job,
    Outcome,
    Provenance,
    Record,
    ResourceSet,
    ResourceSource,
    TaskSpec,
    Training,
)

NLI_TASK = TaskSpec(
    name="nli",
    kind="nli",
    title="Pairs | of <texts>",
    columns=("premise", "hypothesis"),
    labels=("yes", "no"),
    licence="CC BY-SA 4.0",
    hub=HubData(
        id="someone/nli",
        revision="0" * 40,
        splits={"test": "test"},
        columns={"premise": "a", "hypothesis": "b", "label": "c"},
    ),
    notes=("A note.",),
)


def make_outcome(i: int, status: str, **more: Any) -> Outcome:
    """An outcome of `NLI_TASK`; with `gold` in `more`, one of a task of scores."""
    given = {"label": i % 2, "original_prediction": i % 2, "perturbed_prediction": 1 - i % 2}
    scored = {"gold": 2.5, "original_score": 2.0, "perturbed_score": 4.5}
    texts = {"original": ("a b", f"c {i}"), "perturbed": ("a b", f"d {i}") if status != "skipped" else None}
    own = scored if "gold" in more else given
    return Outcome.model_validate(
        {"example_id": f"test:{i}", "status": status, **texts, **own, "num_queries": 7, "num_words": 4, **more}
    )


def make_source(outcomes: list[Outcome], task: TaskSpec = NLI_TASK, **more: Any) -> AttackedSource:
    """The attack job, its victim and its record behind these outcomes."""
    encoder, clean = EncoderSpec(name="toy", base="toy"), Choice(name="clean")
    tuned = FinetuneJob(encoder=encoder, strategy=clean, task=task, data_fingerprint="d", training=Training())
    victim = Job.make(tuned, ("toy", task.name, "clean"), {}, 3)
    spec = AttackJob(
        encoder="toy",
        strategy=clean,
        task=task,
        data_fingerprint="rows",
        attack=AttackSpec(name="swap", recipe="Swap", needs=("masked_lm",), max_words=5),
        resources=ResourceSet(name="here", masked_lm=ResourceSource(kind="hub", name="/home/me/models/lm")),
        resource_fingerprints={"masked_lm": "f" * 64},
        num_examples=len(outcomes),
    )
    job = Job.make(spec, ("toy", task.name, "clean", "swap"), {"victim": victim.key}, 3)
    record = Record(job=job, status="complete", provenance=Provenance(rbench="0", weights_hash="w" * 64))
    return AttackedSource(job, record, victim, outcomes, **more)


OUTCOMES = [
    make_outcome(0, "succeeded"),
    make_outcome(1, "failed"),
    make_outcome(2, "skipped"),
    make_outcome(3, "errored", original=None),
]
