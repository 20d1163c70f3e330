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
from rbench.execution.inputs import JobInputs, ProvenanceMaker, RunContext, endpoint_of, open_existing_classifier
from rbench.masking import masked
from rbench.schema import AttackJob, FinetuneJob, Job, PretrainJob, Provenance, Record, Score, VictimJob
from rbench.store import provenance
from rbench.system.own_code import error_message, place_of_error
from rbench.system.progress import count_steps
from rbench.system.progress_bars import hide_progress_bars

if TYPE_CHECKING:
    from rbench.tasks import Example

log = logging.getLogger("rbench")


@hide_progress_bars()
def run_job(job: Job, context: RunContext) -> Record | None:
    """Run one job and store its record. Returns None if other processes still do parts of it.

    An error, or an exit, becomes a failed record. Ctrl-C passes through, and so does LeaseLost.
    """
    started, clock = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.perf_counter()

    def source(**more: Any) -> Provenance:
        commit, dirty = provenance.read_commit()
        return Provenance(
            rbench=rbench.__version__,
            commit=commit,
            dirty=dirty,
            packages=provenance.read_packages(),
            python=platform.python_version(),
            platform=provenance.describe_machine(),
            device=_device_name(context.device),
            inputs=_input_hashes(job, context),
            started=started,
            seconds=round(time.perf_counter() - clock, 3),
            **endpoint_fields(),
            **more,
        )

    endpoint_fields = _endpoint_fields(job, context)

    if job.opening is None and (job.measuring is None or job.measuring.of == "trainings"):
        context.network.clear()  # free the memory for trainings and attacks
    record: Record | None
    try:
        context.team.check_deaths(job)
        spec = job.spec
        if isinstance(spec, PretrainJob):
            record = weights.load_or_make(
                job, context, lambda folder: weights.pretrain(job, spec, context, folder), source
            )
        elif isinstance(spec, FinetuneJob):
            record = weights.load_or_make(
                job, context, lambda folder: weights.finetune(job, spec, context, folder), source
            )
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
        text = masked(str(error) if isinstance(error, RbenchError | AnswerError) else _traceback_of(error))
        log.error("%s failed: %s", job.name, masked(str(error)) or type(error).__name__)
        record = Record(job=job, status="failed", provenance=source(), error=text)
    # A failed retraining must not replace the record on which stored attacks rest: they would be orphaned.
    if record is None or (record.status == "failed" and _record_stays(job, context)):
        return record
    # Just before the write: a process that was stopped for long may have lost the job to another one.
    context.team.check(job)
    context.store.write_record(record)
    for raised_flag in record.health.flags if record.health is not None else ():
        context.progress.note(f"{job.name} is flagged `{raised_flag.flag}`: {raised_flag.because}")
    return record


def _traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception. Its last line names the line of a user's own Python that raised it."""
    place = place_of_error(error)
    return traceback.format_exc() + (f"{place}: {error_message(error)}" if place is not None else "")


def _endpoint_fields(job: Job, context: RunContext) -> Callable[[], dict[str, Any]]:
    """Return what gives, at the end of a job, the fields of its provenance about an encoder behind an endpoint."""
    endpoint = endpoint_of(job, context)
    if endpoint is None:
        return dict
    from rbench.encoders import asked_vectors as asked

    before = asked.count_usage(endpoint)
    return lambda: {"asked": dict(asked.count_usage(endpoint) - before), "signature": asked.probe_signature(endpoint)}


def _input_hashes(job: Job, context: RunContext) -> dict[str, str]:
    """Return the hashes of the weights behind what a job reads of other jobs, by their keys."""
    hashes = {}
    for key in set(job.needs.values()):
        record = context.store.look(context.plan.job(key)).record
        if record is not None and record.provenance.weights_hash is not None:
            hashes[key] = record.provenance.weights_hash
    return dict(sorted(hashes.items()))


def _record_stays(job: Job, context: RunContext) -> bool:
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


def open_existing(job: Job, spec: VictimJob, context: RunContext, source: ProvenanceMaker) -> Record:
    """Open a classifier that exists, and score it on the rows on which fine-tuned victims are scored.

    These are validation rows, or test rows of a task without a validation split. If the job asks for none, the
    classifier is opened, so that an attack does not begin on one that cannot be, and asked for nothing.

    Raises JobError where it cannot be opened, is no longer the planned one, or its answers are not usable.
    """
    from rbench.encoders.classify import classify
    from rbench.execution.parts import count_part_rows, score_parts
    from rbench.train.finetune import sample_split

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = JobInputs(job, context)
    place = context.places.victims[spec.victim.name, spec.task.name]
    victim = open_existing_classifier(
        inputs, place, context.victims[spec.victim.name], spec.task, context, forgiving=True
    )
    counts = {f"{name}_rows": size for name, size in data.sizes.items()}
    provenance_of_victim = {"dataset_fingerprint": data.fingerprint, "weights_hash": place.fingerprint}
    if spec.max_validation == 0:
        return Record(job=job, status="complete", counts=counts, provenance=source(**provenance_of_victim))
    split = "validation" if data.sizes.get("validation") else "test"
    rows = sample_split(data, split, spec.max_validation, job.seed)
    report_progress = count_steps(context.progress.update, len(rows), f"{split}: {len(rows)} texts")
    predictions = classify(victim, [row.texts for row in rows], progress=report_progress)
    part_scores = score_parts(victim, data, context.progress.update) if spec.task.parts else ()
    inputs.check(ask=True)
    answered = [
        (int(predicted), row.label) for predicted, row in zip(predictions.labels, rows, strict=True) if predicted >= 0
    ]
    num_right = sum(predicted == label for predicted, label in answered)
    accuracy = Score(name=f"{split}_accuracy", value=num_right / len(answered), n=len(answered))
    unanswered_note = f", and {len(rows) - len(answered)} had no usable answer" if len(answered) < len(rows) else ""
    context.progress.update(
        1, 1, f"{split} accuracy {num_right / len(answered):.3f} on {len(answered)} rows{unanswered_note}"
    )
    health = score.victim_health(accuracy, (label for _, label in answered), split)
    labelled = [(predicted, int(label)) for predicted, label in answered if label is not None]
    exchange_flag = score.flag_exchanged_labels(
        [predicted for predicted, _ in labelled], [label for _, label in labelled], spec.task.labels
    )
    if exchange_flag is not None:
        health = health.model_copy(update={"flags": (*health.flags, exchange_flag)})
    return Record(
        job=job,
        status="complete",
        scores=(accuracy, *part_scores),
        counts={"n": len(rows), **counts, **count_part_rows(data)},
        health=health,
        right="".join(map(_right_letter, predictions.labels, rows)) if split == "test" else None,
        provenance=source(**provenance_of_victim),
    )


def _right_letter(label: int, row: Example) -> str:
    """Return whether a row was right, as `Record.right` has it."""
    return "-" if label < 0 else str(int(label == row.label))


__all__ = ["RunContext", "run_job", "sample"]
