"""Say how long the jobs of a suite that are left will take on this machine, all or before one attack can begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rbench.plan.prepare import PreparedSuite
from rbench.plan.work import MOST_CORES, DurationEstimator, Estimate, MachineSpeed
from rbench.schema import Choice, Job, Plan
from rbench.store import provenance
from rbench.store.weights import WeightCache, default_cache
from rbench.system import speed
from rbench.system.processes import cores
from rbench.system.progress import format_duration

ACCURACY_FACTOR = 2.0
"""Estimates are meant to be within this factor. `docs/scaling.md` says for which share of the jobs of committed runs
they are."""
MAX_NAMED = 3
PROBE = "probe"
FEW_ROWS = 1000
"""Training rows that are proposed where a probe takes more than `LONG_SECONDS` seconds, most of them to encode the
rows."""
LONG_SECONDS = 30.0


@dataclass(frozen=True)
class Planned:
    """A planned suite: its jobs, its RUN folder, which jobs are done, what the others cost, and notes for the user.

    `done` and `cached` are keys of jobs. A job in `cached` is not done but costs next to nothing, because the weights
    that it would make are in the cache.
    """

    plan: Plan
    jobs: tuple[Job, ...]
    """The jobs chosen by --only, in order; without it all jobs of the plan."""
    run: Path
    done: frozenset[str]
    estimates: Mapping[str, Estimate]
    notes: list[str]
    cached: frozenset[str] = frozenset()
    prepared: PreparedSuite | None = field(default=None, repr=False)
    """All that planning found, for `forecast`."""


@dataclass(frozen=True)
class Forecast:
    """How long the jobs that are left take in one process of `rbench run` on this machine, with its workers."""

    jobs: int
    hours: float
    low: float
    high: float
    gflops: float
    """Measured: billions of operations a second of a core in products of matrices."""
    workers: int
    largest: tuple[tuple[str, float], ...]
    """The kinds of jobs that take longest, with their share of the hours: a stage, or an attack by name."""


def forecast(planned: Planned, workers: int | None = None) -> Forecast:
    """Estimate the time of the jobs that are left.

    Measures for two seconds how fast this machine is, and remembers it in the cache folder.

    Args:
        workers: processes for attacks; None: one a core, at most 8.
    """
    assert planned.prepared is not None
    machine = this_machine(workers)
    timing, seconds_by_kind = DurationEstimator(planned.prepared, machine), Counter[str]()
    left_jobs = [job for job in planned.jobs if job.key not in planned.done and job.key not in planned.cached]
    for job in left_jobs:
        kind = f"attack {job.attacking.attack.name}" if job.attacking is not None else str(job.stage)
        seconds_by_kind[kind] += timing.seconds(job)  # type: ignore[assignment]
    hours = seconds_by_kind.total() / 3600
    largest = tuple(
        (kind, seconds / seconds_by_kind.total()) for kind, seconds in seconds_by_kind.most_common(MAX_NAMED)
    )
    return Forecast(
        len(left_jobs),
        hours,
        hours / ACCURACY_FACTOR,
        hours * ACCURACY_FACTOR,
        machine.gflops,
        machine.workers,
        largest,
    )


def this_machine(workers: int | None = None) -> MachineSpeed:
    """Return this machine, whose speed is measured for two seconds and remembered."""
    about = f"{provenance.describe_machine()}, torch {provenance.read_packages().get('torch')}"
    rate, count = speed.gflops(default_cache() / "speed.json", about), cores()
    return MachineSpeed(rate, count, workers or min(count, MOST_CORES))


def describe_trainings_ahead(prepared: PreparedSuite, cache: WeightCache) -> str | None:
    """Return what is trained before the last job of a plan can begin, and its time; None if the cache has it all.

    Where a probe takes less time than the fine-tuning, the note offers it, and fewer rows where it is not quick either.
    """
    left = [job for job in prepared.plan.jobs[:-1] if not cache.seems_to_have(job.key)]
    trainings = [job for job in left if job.trains]
    if not trainings:
        return None
    timing = DurationEstimator(prepared, this_machine())
    seconds = sum(map(timing.seconds, left))
    least, most = format_duration(seconds / ACCURACY_FACTOR), format_duration(seconds * ACCURACY_FACTOR)
    training_names = " and ".join(_describe_training(job) for job in trainings)
    note = f"The weights are not in the cache. First comes {training_names}: "
    note += f"about {format_duration(seconds)} on this machine ({least} to {most}), by the estimate"
    return note + _offer_quicker(timing, [job for job in trainings if job.tuning is not None])


def _offer_quicker(timing: DurationEstimator, tuned: Sequence[Job]) -> str:
    """Say what takes less time than these fine-tunings."""
    probe, few = (sum(timing.seconds(_as_probe(job, rows)) for job in tuned) for rows in (None, FEW_ROWS))
    fewer = f"--set training.max_train={FEW_ROWS} (a sample of the training rows)"
    quicker = probe > LONG_SECONDS and few < probe / 2
    if probe < sum(map(timing.seconds, tuned)):
        offer = (
            f". With --finetune {PROBE} (frozen encoder, logistic head) fine-tuning takes about "
            f"{format_duration(probe)}"
        )
        return offer + (f", and with {fewer} as well about {format_duration(few)}" if quicker else "")
    return f". With {fewer} fine-tuning takes about {format_duration(few)}" if quicker else ""


def _describe_training(job: Job) -> str:
    encoder, *others = job.parts
    return f"fine-tuning {encoder} on {others[0]}" if job.tuning is not None else f"pretraining {encoder}"


def _as_probe(job: Job, most: int | None) -> Job:
    """Return a fine-tuning as it would be with a probe on so many rows at most, for its time alone."""
    assert job.tuning is not None
    training = job.tuning.training
    rows = min((limit for limit in (most, training.max_train) if limit is not None), default=None)
    changed = {"strategy": Choice(name=PROBE), "training": training.model_copy(update={"max_train": rows})}
    return job.model_copy(update={"spec": job.spec.model_copy(update=changed)})
