"""Run the jobs that open classifiers that exist."""

from __future__ import annotations

from rbench import score
from rbench.execution.inputs import Context, Inputs, Source, opened
from rbench.execution.parts import by_part, counting, part_counts
from rbench.schema import Job, Record, Score, VictimJob


def open_existing(job: Job, spec: VictimJob, context: Context, source: Source) -> Record:
    """Open a classifier that exists, and score it on the rows on which fine-tuned victims are scored.

    These are validation rows, or test rows of a task without a validation split.

    Raises JobError where it cannot be opened, is no longer the planned one, or its answers are not usable.
    """
    from rbench.encoders.classify import classify
    from rbench.train.finetune import sample_split

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = Inputs(job, context)
    place = context.places.victims[spec.victim.name, spec.task.name]
    victim = opened(inputs, place, context.victims[spec.victim.name], spec.task, context, forgiving=True)
    split = "validation" if data.sizes.get("validation") else "test"
    rows = sample_split(data, split, spec.max_validation, job.seed)
    told = counting(context.progress.update, split, len(rows))
    found = classify(victim, [row.texts for row in rows], progress=told)
    parted = by_part(victim, data, context.progress.update) if spec.task.parts else ()
    inputs.check()
    answered = [(int(one), row.label) for one, row in zip(found.labels, rows, strict=True) if one >= 0]
    right = sum(one == label for one, label in answered)
    accuracy = Score(name=f"{split}_accuracy", value=right / len(answered), n=len(answered))
    without = f", and {len(rows) - len(answered)} had no usable answer" if len(answered) < len(rows) else ""
    context.progress.note(f"{job.name}: {split} accuracy {right / len(answered):.3f} on {len(answered)} rows{without}")
    health = score.victim_health(accuracy, (label for _, label in answered), split)
    known = [(one, int(label)) for one, label in answered if label is not None]
    exchanged = score.exchanged_labels([one for one, _ in known], [label for _, label in known], spec.task.labels)
    if exchanged is not None:
        health = health.model_copy(update={"flags": (*health.flags, exchanged)})
    return Record(
        job=job,
        status="complete",
        scores=(accuracy, *parted),
        counts={"n": len(rows), **{f"{name}_rows": size for name, size in data.sizes.items()}, **part_counts(data)},
        health=health,
        provenance=source(dataset_fingerprint=data.fingerprint, weights_hash=place.fingerprint),
    )
