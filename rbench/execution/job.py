"""Run one job of any stage and store its record (`run_job`).

A job reads only what its spec and needs name: weights that earlier jobs left in the cache, rows of its task, whose
fingerprint must be the planned one, and resources such as those of its attack.
"""

from __future__ import annotations

import datetime
import logging
import platform
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rbench
from rbench import score
from rbench.errors import AnswerError, LeaseLost, RbenchError
from rbench.execution import attacks, weights
from rbench.execution.attacks import sample
from rbench.execution.inputs import Context, Inputs, Source, endpoint_of, opened
from rbench.masking import masked
from rbench.schema import AttackJob, FinetuneJob, Job, PretrainJob, Provenance, Record, Score, VictimJob
from rbench.store import provenance
from rbench.system.progress import counting

if TYPE_CHECKING:
    from rbench.tasks import Example

log = logging.getLogger("rbench")


def run_job(job: Job, context: Context) -> Record | None:
    """Run one job and store its record. Returns None if other processes still do parts of it.

    An error, or an exit, becomes a failed record. Ctrl-C passes through, and so does LeaseLost.
    """
    started, clock = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.perf_counter()

    def source(**more: Any) -> Provenance:
        commit, dirty = provenance.commit()
        return Provenance(
            rbench=rbench.__version__,
            commit=commit,
            dirty=dirty,
            packages=provenance.packages(),
            python=platform.python_version(),
            platform=provenance.machine(),
            device=_device_name(context.device),
            inputs=_inputs(job, context),
            started=started,
            seconds=round(time.perf_counter() - clock, 3),
            **told(),
            **more,
        )

    told = _asking(job, context)

    if job.opening is None and (job.measuring is None or job.measuring.of == "trainings"):
        context.network.clear()  # free the memory for trainings and attacks
    record: Record | None
    try:
        context.team.check_deaths(job)
        spec = job.spec
        if isinstance(spec, PretrainJob):
            record = weights.cached(job, context, lambda folder: weights.pretrain(job, spec, context, folder), source)
        elif isinstance(spec, FinetuneJob):
            record = weights.cached(job, context, lambda folder: weights.finetune(job, spec, context, folder), source)
        elif isinstance(spec, VictimJob):
            record = open_existing(job, spec, context, source)
        elif isinstance(spec, AttackJob):
            record = attacks.attack(job, spec, context, source)
        else:
            from rbench.execution import measured  # what measures are given is needed by their jobs alone

            record = measured.measure(job, spec, context, source)
    except (KeyboardInterrupt, LeaseLost):
        raise
    except BaseException as error:  # a user's module may call sys.exit
        text = masked(str(error) if isinstance(error, RbenchError | AnswerError) else traceback.format_exc())
        log.error("%s failed: %s", job.name, masked(str(error)) or type(error).__name__)
        record = Record(job=job, status="failed", provenance=source(), error=text)
    if record is None or (record.status == "failed" and _stands(job, context)):
        return record
    context.team.check(job)
    context.store.write_record(record)
    for raised in record.health.flags if record.health is not None else ():
        context.progress.note(f"{job.name} is flagged `{raised.flag}`: {raised.because}")
    return record


def _asking(job: Job, context: Context) -> Callable[[], dict[str, Any]]:
    """Return what gives, at the end of a job, the fields of its provenance about an encoder behind an endpoint."""
    endpoint = endpoint_of(job, context)
    if endpoint is None:
        return dict
    from rbench.encoders import asked_vectors as asked

    before = asked.usage(endpoint)
    return lambda: {"asked": dict(asked.usage(endpoint) - before), "signature": asked.signature(endpoint)}


def _inputs(job: Job, context: Context) -> dict[str, str]:
    """Return the hashes of the weights behind what a job reads of other jobs, by their keys."""
    found = {}
    for key in set(job.needs.values()):
        record = context.store.look(context.plan.job(key)).record
        if record is not None and record.provenance.weights_hash is not None:
            found[key] = record.provenance.weights_hash
    return dict(sorted(found.items()))


def _stands(job: Job, context: Context) -> bool:
    """Whether the record of a training stays, though the cache lost its weights and they could not be made again.

    Other results stand on it.
    """
    record = context.store.look(job).record if job.trains else None
    return record is not None and record.status == "complete"


def _device_name(device: str) -> str:
    if device == "cpu":
        return "cpu"
    import torch

    return f"{device} ({torch.cuda.get_device_name()})"


def open_existing(job: Job, spec: VictimJob, context: Context, source: Source) -> Record:
    """Open a classifier that exists, and score it on the rows on which fine-tuned victims are scored.

    These are validation rows, or test rows of a task without a validation split.

    Raises JobError where it cannot be opened, is no longer the planned one, or its answers are not usable.
    """
    from rbench.encoders.classify import classify
    from rbench.execution.parts import by_part, part_counts
    from rbench.train.finetune import sample_split

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = Inputs(job, context)
    place = context.places.victims[spec.victim.name, spec.task.name]
    victim = opened(inputs, place, context.victims[spec.victim.name], spec.task, context, forgiving=True)
    split = "validation" if data.sizes.get("validation") else "test"
    rows = sample_split(data, split, spec.max_validation, job.seed)
    told = counting(context.progress.update, len(rows), f"{split}: {len(rows)} texts")
    found = classify(victim, [row.texts for row in rows], progress=told)
    parted = by_part(victim, data, context.progress.update) if spec.task.parts else ()
    inputs.check(ask=True)
    answered = [(int(one), row.label) for one, row in zip(found.labels, rows, strict=True) if one >= 0]
    right = sum(one == label for one, label in answered)
    accuracy = Score(name=f"{split}_accuracy", value=right / len(answered), n=len(answered))
    without = f", and {len(rows) - len(answered)} had no usable answer" if len(answered) < len(rows) else ""
    context.progress.update(1, 1, f"{split} accuracy {right / len(answered):.3f} on {len(answered)} rows{without}")
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
        right="".join(map(_letter, found.labels, rows)) if split == "test" else None,
        provenance=source(dataset_fingerprint=data.fingerprint, weights_hash=place.fingerprint),
    )


def _letter(label: int, row: Example) -> str:
    """Return whether a row was right, as `Record.right` has it."""
    return "-" if label < 0 else str(int(label == row.label))


__all__ = ["Context", "run_job", "sample"]
