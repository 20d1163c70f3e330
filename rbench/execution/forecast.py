"""Say how long the jobs of a suite that are left will take: here and on GPUs, or before one attack can begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rbench.errors import PlanError
from rbench.execution.cluster.scheduler import CHUNK, chunks
from rbench.plan import cost_model
from rbench.plan.cost_model import OPEN, STEP, Costs, Machines, Seconds, costs
from rbench.plan.prepare import Prepared
from rbench.plan.work import Estimate, Estimator, Part, Schedule, Work, play
from rbench.schema import Choice, Job, Plan
from rbench.store import provenance
from rbench.store.weights import WeightCache, default_cache
from rbench.system import speed
from rbench.system.processes import cores
from rbench.system.progress import duration


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


BUSY = 0.9
"""Share of the processes' time that is used, from which on the work as a whole limits a run."""
NAMED = 3
CHAIN = "one job after the other"
RUNS = 3
"""Reference runs that are named with their errors: those with the most hours."""


@dataclass(frozen=True)
class Row:
    """An estimate for one sort of machines."""

    machines: str
    assumed: bool
    """Whether the speed of its networks is an assumption and no measurement."""
    hours: float
    low: float
    high: float
    busy: float
    """Share of its processes' time that is used, in 0..1."""
    limit: str
    """What keeps it from being faster."""
    chain: tuple[str, ...] = ()
    """Where `limit` is one job after the other: these."""


@dataclass(frozen=True)
class Forecast:
    """How long the jobs that are left take."""

    jobs: int
    rows: tuple[Row, ...]
    run_bytes: float
    cache_bytes: float
    largest: tuple[tuple[str, float], ...]
    """The kinds of jobs that take longest here, with their share of the hours."""
    notes: tuple[str, ...]


def check(asked: Sequence[str]) -> None:
    """Raise PlanError if one of these is no number of known GPUs, before anything is planned."""
    for text in asked:
        cost_model.parse(text)


def forecast(planned: Planned, asked: Sequence[str] = (), workers: int | None = None) -> Forecast:
    """Estimate the time and disk space of the jobs that are left, on this machine and on GPUs.

    Measures for two seconds how fast this machine is, and remembers it in the cache folder.

    Args:
        asked: GPUs, such as "8xH100", beside 1, 8 and 64 of that kind.
        workers: processes for attacks on this machine; None: one a core, at most 8.

    Raises PlanError if a GPU is not known, or `planned` was not made by `rbench.api.plan`.
    """
    if planned.prepared is None:
        raise PlanError("this plan was not made of a suite, so that nothing is known of its networks and texts")
    wanted = [cost_model.parse(text) for text in asked]
    model = costs()
    estimator = Estimator(planned.prepared, model)
    left = [job for job in planned.jobs if job.key not in planned.done and job.key not in planned.cached]
    work = [estimator.of(job) for job in left]
    own, rate = this_machine(model, workers)
    rows = [_row(work, own, model)]
    for name in dict.fromkeys(name for _, name in wanted) or (cost_model.USUAL,):
        numbers = {*cost_model.COUNTS, *(n for n, of in wanted if of == name)}
        rows += [_row(work, cost_model.gpus(model, n, name), model) for n in sorted(numbers)]
    return Forecast(
        jobs=len(left),
        rows=tuple(rows),
        run_bytes=sum(one.run_bytes for one in work),
        cache_bytes=sum(one.cache_bytes for one in work),
        largest=_largest(work, own),
        notes=tuple(_notes(work, own, rate, model)),
    )


def _row(work: Sequence[Work], on: Machines, model: Costs) -> Row:
    least, middle, most = (_played(work, on, case, model) for case in range(3))
    total = on.processes * middle.seconds
    return Row(
        machines=on.name,
        assumed=on.assumed,
        hours=middle.seconds / 3600,
        low=least.seconds / model.spread / 3600,
        high=most.seconds * model.spread / 3600,
        busy=middle.work / total if total else 1.0,
        limit=(limit := _limit(middle, on) if work else ""),
        chain=middle.chain if limit == CHAIN else (),
    )


def _played(work: Sequence[Work], on: Machines, case: int, model: Costs) -> Schedule:
    """Play the jobs on machines. Chunks of an attack are parts of their own."""
    parts = []
    for one in work:
        spec = one.job.attacking
        n = chunks(spec.num_examples) if spec is not None else 1
        taken = on.seconds(one.seconds, case, attack=spec is not None) / n
        taken += OPEN / (n if on.processes == 1 else 1)  # many processes: each opens the victim for its chunk
        parts.append(Part(one.job.key, tuple(one.job.needs.values()), taken, n))
    found = play(parts, on.processes)
    names = {one.job.key: one.job.name for one in work}
    start = model.start if work else 0.0  # all processes start at once
    return Schedule(
        found.seconds + start,
        found.work + on.processes * start,
        tuple(names[key] for key in found.chain),
        found.chain_seconds + start,
    )


def _limit(found: Schedule, on: Machines) -> str:
    if on.processes == 1 or found.work >= BUSY * on.processes * found.seconds:
        return "the work as a whole"
    if found.chain_seconds >= BUSY * found.seconds:
        return CHAIN
    return f"too few jobs and chunks of {CHUNK} examples"


def _largest(work: Sequence[Work], on: Machines) -> tuple[tuple[str, float], ...]:
    """Return the kinds of jobs that take most of the time on a machine: a stage, or an attack by name."""
    times: Counter[str] = Counter()
    for one in work:
        spec = one.job.attacking
        kind = f"attack {spec.attack.name}" if spec is not None else str(one.job.stage)
        times[kind] += on.seconds(one.seconds, 1, attack=spec is not None)  # type: ignore[assignment]
    total = sum(times.values())
    return tuple((kind, seconds / total) for kind, seconds in times.most_common(NAMED)) if total else ()


def _notes(work: Sequence[Work], own: Machines, rate: float, model: Costs) -> list[str]:
    unknown = Counter(one.unknown for one in work if one.unknown is not None)
    nothing = sum(one.unknown is not None and one.seconds == Seconds() for one in work)
    longest = sorted(model.errors, key=lambda run: -model.errors[run]["hours"])[:RUNS]
    errors = ", ".join(f"{run} {model.errors[run]['all']:.2g}" for run in longest)
    said = [
        f"this machine: {rate:.0f} GFLOPS a core in products of matrices, measured here; the reference machine "
        f"({model.machine}) has {model.gflops:.0f}. {own.workers} worker processes share the attacks",
        f"error: predicted over measured hours of committed runs that the model had not seen: {errors}. Four of five "
        f"such runs are within a factor of {model.spread:.2g}, and so wide are the ranges",
        "GPUs are assumed, not measured: rbench was never timed on one. Networks are taken to reach "
        f"{100 * cost_model.SHARES[1]:.0f}% of the GPU's peak in single precision ({100 * cost_model.SHARES[2]:.0f} to "
        f"{100 * cost_model.SHARES[0]:.0f}% for the range), and Python to be as fast as on the reference machine; "
        f"opening a job is taken to take {OPEN:.0f} s, and a step of training {STEP:g} s at least",
        "all measured networks have the size of MiniLM (6 layers of 384): larger ones are extrapolated by their FLOPs",
    ]
    if unknown:
        named = ", ".join(f"{what} ({n} job{'s' if n > 1 else ''})" for what, n in unknown.most_common())
        said.append(f"never measured, so that medians of others stand in: {named}")
    if nothing:
        said.append(f"{nothing} of these jobs count as 0 h")
    return said


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
    return cost_model.here(model, rate, count, workers or min(count, MOST_WORKERS)), rate


def ahead(prepared: Prepared, cache: WeightCache) -> str | None:
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
