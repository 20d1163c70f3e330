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
from typing import Any

import rbench
from rbench.errors import LeaseLost, RbenchError
from rbench.execution import attacks, existing, measured, weights
from rbench.execution.attacks import sample
from rbench.execution.inputs import Context
from rbench.masking import masked
from rbench.schema import (
    AttackJob,
    FinetuneJob,
    Job,
    PretrainJob,
    Provenance,
    Record,
    VictimJob,
)
from rbench.store import provenance

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
            **more,
        )

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
            record = existing.open_existing(job, spec, context, source)
        elif isinstance(spec, AttackJob):
            record = attacks.attack(job, spec, context, source)
        else:
            record = measured.measure(job, spec, context, source)
    except (KeyboardInterrupt, LeaseLost):
        raise
    except BaseException as error:  # a user's module may call sys.exit
        text = masked(str(error) if isinstance(error, RbenchError) else traceback.format_exc())
        log.error("%s failed: %s", job.name, masked(str(error)) or type(error).__name__)
        record = Record(job=job, status="failed", provenance=source(), error=text)
    if record is None or (record.status == "failed" and _stands(job, context)):
        return record
    context.team.check(job)
    context.store.write_record(record)
    for raised in record.health.flags if record.health is not None else ():
        context.progress.note(f"{job.name} is flagged `{raised.flag}`: {raised.because}")
    return record


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


__all__ = ["Context", "run_job", "sample"]
