"""Say how long the jobs of a suite that are left will take on this machine, all or before one attack can begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rbench.errors import PlanError
from rbench.plan.prepare import Prepared
from rbench.plan.work import MOST_CORES, Estimate, Machine, Timing
from rbench.schema import Choice, Job, Plan
from rbench.store import provenance
from rbench.store.weights import WeightCache, default_cache
from rbench.system import speed
from rbench.system.processes import cores
from rbench.system.progress import duration

WITHIN = 2.0
"""Estimates are meant to be within this factor. `docs/scaling.md` says for which share of the jobs of committed runs
they are."""
NAMED = 3
PROBE = "probe"
FEW = 1000
"""Training rows that are proposed where a probe takes more than `LONG` seconds, most of them to encode the rows."""
LONG = 30.0


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
    prepared: Prepared | None = field(default=None, repr=False)
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

    Raises PlanError if `planned` was not made by `rbench.api.plan`.
    """
    if planned.prepared is None:
        raise PlanError("this plan was not made of a suite, so that nothing is known of its networks and texts")
    machine = this_machine(workers)
    timing, times = Timing(planned.prepared, machine), Counter[str]()
    left = [job for job in planned.jobs if job.key not in planned.done and job.key not in planned.cached]
    for job in left:
        kind = f"attack {job.attacking.attack.name}" if job.attacking is not None else str(job.stage)
        times[kind] += timing.seconds(job)  # type: ignore[assignment]
    hours = times.total() / 3600
    largest = tuple((kind, seconds / times.total()) for kind, seconds in times.most_common(NAMED))
    return Forecast(len(left), hours, hours / WITHIN, hours * WITHIN, machine.gflops, machine.workers, largest)


def this_machine(workers: int | None = None) -> Machine:
    """Return this machine, whose speed is measured for two seconds and remembered."""
    about = f"{provenance.machine()}, torch {provenance.packages().get('torch')}"
    rate, count = speed.gflops(default_cache() / "speed.json", about), cores()
    return Machine(rate, count, workers or min(count, MOST_CORES))


def ahead(prepared: Prepared, cache: WeightCache) -> str | None:
    """Return what is trained before the last job of a plan can begin, and its time; None if the cache has it all.

    Where a probe takes less time than the fine-tuning, the note offers it, and fewer rows where it is not quick either.
    """
    left = [job for job in prepared.plan.jobs[:-1] if not cache.seems_to_have(job.key)]
    trainings = [job for job in left if job.trains]
    if not trainings:
        return None
    timing = Timing(prepared, this_machine())
    time = sum(map(timing.seconds, left))
    least, most = duration(time / WITHIN), duration(time * WITHIN)
    named = " and ".join(_doing(job) for job in trainings)
    said = f"The weights are not in the cache. First comes {named}: "
    said += f"about {duration(time)} on this machine ({least} to {most}), by the estimate"
    return said + _offer(timing, [job for job in trainings if job.tuning is not None])


def _offer(timing: Timing, tuned: Sequence[Job]) -> str:
    """Say what takes less time than these fine-tunings."""
    probe, few = (sum(timing.seconds(_probe(job, rows)) for job in tuned) for rows in (None, FEW))
    fewer = f"--set training.max_train={FEW} (a sample of the training rows)"
    quicker = probe > LONG and few < probe / 2
    if probe < sum(map(timing.seconds, tuned)):
        said = f". With --finetune {PROBE} (frozen encoder, logistic head) fine-tuning takes about {duration(probe)}"
        return said + (f", and with {fewer} as well about {duration(few)}" if quicker else "")
    return f". With {fewer} fine-tuning takes about {duration(few)}" if quicker else ""


def _doing(job: Job) -> str:
    encoder, *others = job.parts
    return f"fine-tuning {encoder} on {others[0]}" if job.tuning is not None else f"pretraining {encoder}"


def _probe(job: Job, most: int | None) -> Job:
    """Return a fine-tuning as it would be with a probe on so many rows at most, for its time alone."""
    assert job.tuning is not None
    training = job.tuning.training
    rows = min((one for one in (most, training.max_train) if one is not None), default=None)
    changed = {"strategy": Choice(name=PROBE), "training": training.model_copy(update={"max_train": rows})}
    return job.model_copy(update={"spec": job.spec.model_copy(update=changed)})
