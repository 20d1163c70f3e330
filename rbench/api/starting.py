"""Start processes for a run with each kind of executor: how many, with which cores and GPUs, and what they are told."""

from __future__ import annotations

import dataclasses
import os
import platform
import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api import asked
from rbench.api.executor import Executor
from rbench.api.work import Request, told_apart
from rbench.plan.prepare import Options, Prepared
from rbench.progress import Progress
from rbench.spec import Suite
from rbench.system.below import Below
from rbench.system.capacity import cores

if TYPE_CHECKING:
    from rbench.executors.child import Command
    from rbench.executors.slurm import Batch

WORKER = "rbench.cli.worker"
"""The module that a process runs."""
PASSED_ON = ("RBENCH_", "HF_", "NLTK_DATA", "OMP_NUM_THREADS", "TRANSFORMERS_", "TOKENIZERS_", "PYTHONPATH")
"""Environment variables with these beginnings are set on the machines of a Ray cluster, too."""
Suited = str | Path | Mapping[str, Any] | Suite
Over = Callable[[], bool]


@dataclass(frozen=True)
class Shared:
    """What all processes of a run are told."""

    suite: Suited
    prepared: Prepared
    options: Options
    executor: Executor
    folder: Path
    """The folder of the RUN's team."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    submitted: list[str] = field(default_factory=list)
    """The ids of SLURM's jobs, once they are submitted."""

    def names(self, count: int, what: str) -> list[str]:
        """Return a name for each process. Their logs have these names, so runs in one RUN differ."""
        return [f"{what} {i + 1} ({platform.node()}-{self.token[:4]})" for i in range(count)]

    def command(self, *, cpus: int | None, gpus: bool, seen: bool, report: bool = False) -> Command:
        """Return what each process runs.

        Args:
            cpus: its cores; None: those that it finds.
            gpus: whether it has a GPU.
            seen: whether it may be on another machine, and must see the file `seen_by`.
            report: whether the last process writes the RUN's report.
        """
        from rbench.executors.child import Command

        workers = self.options.workers if self.options.workers is not None or gpus else cpus
        options = dataclasses.replace(self.options, out=self.prepared.run.absolute(), workers=workers)
        # This process has done both, once for all. Others may start much later.
        options = dataclasses.replace(options, fresh=False, retry_timeouts=False)
        request = Request(self._content(), options, told_apart(self.prepared.plan), report)
        threads = {} if cpus is None or "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(cpus)}
        return Command(
            WORKER,
            request.to_json(),
            str(Path.cwd()),
            str(self.folder / "logs"),
            str(self.seen_by) if seen else None,
            threads,
            str(self.below.root),
        )

    def _content(self) -> str | dict[str, Any]:
        if isinstance(self.suite, str | os.PathLike):
            return os.fspath(self.suite)
        return {"name": self.prepared.plan.suite.name, **asked.content(self.suite)}

    @property
    def seen_by(self) -> Path:
        """A file that this process writes, and others look for, to tell whether they see the same RUN."""
        return self.folder / "seen" / self.token

    @property
    def below(self) -> Below:
        """The RUN, in which no link is followed."""
        return Below(self.prepared.run.absolute())

    def leave_sign(self) -> None:
        """Write the file `seen_by`."""
        self.below.replace(self.seen_by, b"")

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU may be used, if there is one."""
        return self.options.device != "cpu"


def check(executor: Executor) -> None:
    """Raise ResourceError if the executor cannot work here: a package is missing, or no cluster answers."""
    if executor.kind == "ray":
        from rbench.executors import ray_actors as ray

        ray.check(_address(executor))
    elif executor.kind == "slurm":
        from rbench.executors import slurm

        slurm.check(_batch(executor))


def local(shared: Shared, over: Over, progress: Progress) -> Generator[str | None]:
    """Run the suite in processes of this machine; yields as `rbench.executors.local.run` does."""
    from rbench.executors import local as processes

    devices = visible_gpus() if shared.on_gpu else []
    count = shared.executor.processes or len(devices) or 1
    cpus = shared.executor.cpus or max(1, cores() // count)
    around = [{"CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} if devices else {} for i in range(count)]
    command = shared.command(cpus=cpus, gpus=bool(devices), seen=False)
    _begin(progress, count, f"on this machine, each with {_said(cpus, 1 if devices else 0)}")
    yield from processes.run(command, around, shared.names(count, "process"), over)


def ray_actors(shared: Shared, over: Over, progress: Progress) -> Generator[str | None]:
    """Run the suite in actors of a Ray cluster; yields as `rbench.executors.ray_actors.run` does."""
    from rbench.executors import ray_actors as ray

    asked_for, address = shared.executor, _address(shared.executor)
    shared.leave_sign()
    wanted = (asked_for.processes or 1) * (asked_for.cpus or 1)
    try:
        with ray.connected(address, max(cores(), wanted)) as machines:
            gpus = asked_for.gpus
            if gpus is None:
                gpus = 1.0 if shared.on_gpu and any(one.gpus >= 1 for one in machines) else 0.0
            count, cpus = ray.division(machines, asked_for.processes, asked_for.cpus, gpus)
            command = shared.command(cpus=cpus, gpus=gpus > 0, seen=True)
            passed = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
            command = dataclasses.replace(command, environment={**passed, **command.environment})
            _begin(progress, count, f"on Ray, each with {_said(cpus, gpus)}")
            yield from ray.run(command, cpus, gpus, shared.names(count, "process"), over)
    finally:
        shared.below.remove(shared.seen_by)


def slurm_tasks(shared: Shared, over: Over, progress: Progress) -> Generator[str | None]:
    """Submit tasks to SLURM, and wait for them if wanted; yields as `rbench.executors.slurm.wait` does."""
    from rbench.executors import slurm

    batch, count = _batch(shared.executor), shared.executor.processes or 1
    gpus = bool(batch.gpus) or bool({"gpus", "gres", "gpus-per-node", "gpus-per-task"} & batch.more.keys())
    shared.leave_sign()  # it stays: tasks may begin in days
    command = shared.command(cpus=batch.cpus, gpus=gpus, seen=True, report=True)
    shared.below.make_folder(shared.folder / "slurm")
    jobs = slurm.submit(command, shared.names(count, "task"), batch, shared.folder / "slurm")
    shared.submitted.extend(str(job.job_id) for job in jobs)
    if not shared.executor.wait:
        return
    _begin(progress, count, f"in the tasks {', '.join(shared.submitted[:3])}{' ...' if count > 3 else ''}")
    with closing(slurm.wait(jobs, over)) as steps:
        yield from steps


def _begin(progress: Progress, count: int, how: str) -> None:
    progress.start(f"{count} process{'es' if count > 1 else ''} {how}", 1, 1)


def _said(cpus: int, gpus: float) -> str:
    said = f"{cpus} core{'s' if cpus > 1 else ''}"
    return f"{said} and {gpus:g} GPU{'s' if gpus > 1 else ''}" if gpus else said


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    listed = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    return listed[:count] if listed else [str(i) for i in range(count)]


def _address(executor: Executor) -> str:
    return executor.address or os.environ.get("RAY_ADDRESS") or "local"


def _batch(executor: Executor) -> Batch:
    from rbench.executors.slurm import Batch

    requeue = Batch.requeue if executor.requeue is None else executor.requeue
    return Batch(
        executor.cluster or "slurm",
        executor.partition,
        executor.minutes,
        executor.cpus,
        None if executor.gpus is None else int(executor.gpus),
        requeue,
        executor.sbatch,
    )
