"""Say what trains before the first text is attacked, and how long that takes here: `rbench attack`."""

from __future__ import annotations

from collections.abc import Sequence

from rbench.plan import machines
from rbench.plan.cost_model import OPEN, Costs, costs
from rbench.plan.machines import Machines
from rbench.plan.prepare import Prepared
from rbench.plan.work import Estimator
from rbench.progress.bars import duration
from rbench.spec import Choice, Job
from rbench.storage import provenance
from rbench.storage.weights import WeightCache, default_cache
from rbench.system import speed
from rbench.system.capacity import cores

MOST_WORKERS = 8
PROBE = "probe"
FEW = 1000
"""Training rows that are proposed where a probe takes more than `LONG` seconds, most of them to encode the rows."""
LONG = 30.0


def this_machine(model: Costs, workers: int | None = None) -> tuple[Machines, float]:
    """Return this machine and the GFLOPS of one of its cores, which are measured for two seconds and remembered.

    Args:
        workers: processes for attacks; None: one a core, at most 8.
    """
    about = f"{provenance.machine()}, torch {provenance.packages().get('torch')}"
    rate, count = speed.gflops(default_cache() / "speed.json", about), cores()
    return machines.here(model, rate, count, workers or min(count, MOST_WORKERS)), rate


def note(prepared: Prepared, cache: WeightCache) -> str | None:
    """Return what is trained before the last job of a plan can begin, and its time; None if the cache has it all.

    Where a probe takes less time than the fine-tuning, the note offers it, and fewer rows where it is not quick either.
    """
    left = [job for job in prepared.plan.jobs[:-1] if not cache.seems_to_have(job.key)]
    trainings = [job for job in left if job.trains]
    if not trainings:
        return None
    took = _Times(prepared)
    time = took.of(left)
    least, most = duration(time / took.model.spread), duration(time * took.model.spread)
    named = " and ".join(_doing(job) for job in trainings)
    said = f"The weights are not in the cache. First comes {named}: "
    said += f"about {duration(time)} on this machine ({least} to {most}), by the estimate"
    return said + _offer(took, [job for job in trainings if job.tuning is not None])


def _offer(took: _Times, tuned: list[Job]) -> str:
    """Say what takes less time than these fine-tunings."""
    probe, few = (took.of([_probe(job, rows) for job in tuned]) for rows in (None, FEW))
    fewer = f"--set training.max_train={FEW} (a sample of the training rows)"
    quicker = probe > LONG and few < probe / 2
    if probe < took.of(tuned):
        said = f". With --finetune {PROBE} (frozen encoder, logistic head) fine-tuning takes about {duration(probe)}"
        return said + (f", and with {fewer} as well about {duration(few)}" if quicker else "")
    return f". With {fewer} fine-tuning takes about {duration(few)}" if quicker else ""


class _Times:
    """The seconds that jobs take on this machine, one after the other."""

    def __init__(self, prepared: Prepared) -> None:
        self.model = costs()
        self._estimator, (self._here, _) = Estimator(prepared, self.model), this_machine(self.model)

    def of(self, jobs: Sequence[Job]) -> float:
        alone = ((self._estimator.of(job).seconds, job.attacking is not None) for job in jobs)
        return sum(OPEN + self._here.seconds(time, 1, attack=attack) for time, attack in alone)


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
