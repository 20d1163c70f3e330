"""Open victims for evaluations, and run the jobs that open classifiers that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench import score
from rbench.spec import Job, Record, Score, TaskSpec, VictimJob, VictimSpec
from rbench.stages.context import Context, Source
from rbench.stages.inputs import Inputs
from rbench.storage.weights import weights_hash
from rbench.system.located import Located


def victim_of(inputs: Inputs, task: TaskSpec, context: Context, role: str = "victim") -> Any:
    """Return the victim in a role, for `rbench.encoders.classify`: fine-tuned by a job, or a classifier that exists."""
    place, given = inputs.victim(role), inputs.existing(role)
    if given is not None:
        return _existing(inputs, place, given, task, context)
    from rbench.encoders.classifier import EncoderClassifier

    return inputs.network(place, "victim", lambda where: EncoderClassifier.load(Path(where), context.device)[0])


def victim_hash(inputs: Inputs, role: str = "victim") -> str:
    """Return the hash of a victim's weights for a record. Of a classifier that exists it is the planned fingerprint."""
    place = inputs.victim(role)
    return place.fingerprint if inputs.existing(role) is not None else weights_hash(Path(place.where))


def open_existing(job: Job, spec: VictimJob, context: Context, source: Source) -> Record:
    """Open a classifier that exists, and score it on the rows on which fine-tuned victims are scored.

    These are validation rows, or test rows of a task without a validation split.

    Raises JobError where it cannot be opened, is no longer the planned one, or its answers are not usable.
    """
    from rbench.encoders.classify import classify
    from rbench.finetune import sample_split

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = Inputs(job, context)
    place = context.places.victims[spec.victim.name, spec.task.name]
    victim = _existing(inputs, place, context.victims[spec.victim.name], spec.task, context)
    split = "validation" if data.sizes.get("validation") else "test"
    rows = sample_split(data, split, spec.max_validation, job.seed)
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        context.progress.update(done, len(rows), f"{split}: {len(rows)} texts")

    found = classify(victim, [row.texts for row in rows], progress=progress)
    inputs.check()
    right = sum(int(label) == row.label for label, row in zip(found.labels, rows, strict=True))
    accuracy = Score(name=f"{split}_accuracy", value=right / len(rows), n=len(rows))
    context.progress.note(f"{job.name}: {split} accuracy {right / len(rows):.3f} on {len(rows)} rows")
    return Record(
        job=job,
        status="complete",
        scores=(accuracy,),
        counts={"n": len(rows), **{f"{name}_rows": size for name, size in data.sizes.items()}},
        health=score.victim_health(accuracy, (row.label for row in rows)),
        provenance=source(dataset_fingerprint=data.fingerprint, weights_hash=place.fingerprint),
    )


def _existing(inputs: Inputs, place: Located, given: VictimSpec, task: TaskSpec, context: Context) -> Any:
    if given.origin == "model":
        from rbench.victims.model import open_model

        return inputs.network(
            place,
            f"{given.model_dump_json()} {task.model_dump_json()}",
            lambda where: open_model(given, where, task, context.device),
        )
    from rbench.victims.asked import Asked
    from rbench.victims.opened import open_answers

    inputs.open(place)
    return Asked(open_answers(given, task))
