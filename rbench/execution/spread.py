"""Run a suite in processes: of this machine, in tasks of SLURM, or actors of Ray."""

from __future__ import annotations

import dataclasses
import os
import platform
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter, ValidationError

from rbench.errors import PlanError
from rbench.execution.cluster.executor import Executor
from rbench.execution.cluster.scheduler import Team, TeamBoard, digest
from rbench.execution.run import Ran, device_of, joined
from rbench.plan.prepare import Options, Prepared
from rbench.schema import Job, Plan, Record
from rbench.system.below import Below
from rbench.system.processes import cores
from rbench.system.progress import Progress

if TYPE_CHECKING:
    from rbench.execution.cluster.child import Command


@dataclass(frozen=True)
class Request:
    """A suite and how to run it, as one line of JSON."""

    suite: str | dict[str, JsonValue]
    """A name, the path of a file, or what such a file would hold."""
    options: Options
    plan: str
    """What tells the plan from others, as the process planned that started this one."""
    report: bool = False
    """Whether the process that ends the run writes the RUN's report."""

    def to_json(self) -> str:
        """Return the request as one line."""
        return _REQUEST.dump_json(self).decode()


_REQUEST = TypeAdapter(Request)


def requested(text: str) -> Request:
    """Read a request. Raises PlanError if it is none."""
    try:
        return _REQUEST.validate_json(text)
    except ValidationError as error:
        raise PlanError(f"the request is of another version of rbench: {error.errors()[0]['msg']}") from error


def told_apart(plan: Plan) -> str:
    """Return what is the same for two plans with the same jobs of the same suite."""
    return digest(plan.model_copy(update={"texts": True}))


WORKER = "rbench.cli.worker"
"""The module that a process runs."""
PASSED_ON = ("RBENCH_", "HF_", "NLTK_DATA", "OMP_NUM_THREADS", "TRANSFORMERS_", "TOKENIZERS_", "PYTHONPATH")
"""Environment variables with these beginnings are set on the machines of a Ray cluster, too."""
Over = Callable[[], bool]


@dataclass(frozen=True)
class Shared:
    """What all processes of a run are told."""

    suite: str | dict[str, JsonValue]
    """As in a `Request`."""
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
        from rbench.execution.cluster.child import Command

        workers = self.options.workers if self.options.workers is not None or gpus else cpus
        options = dataclasses.replace(self.options, out=self.prepared.run.absolute(), workers=workers)
        # This process has done both, once for all. Others may start much later.
        options = dataclasses.replace(options, fresh=False, retry_timeouts=False)
        request = Request(self.suite, options, told_apart(self.prepared.plan), report)
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
        from rbench.execution.cluster import ray_actors as ray

        ray.check(_address(executor))
    elif executor.kind == "slurm":
        from rbench.execution.cluster import slurm

        slurm.check(executor.cluster)


def local(shared: Shared, over: Over, progress: Progress) -> Generator[str | None]:
    """Run the suite in processes of this machine; yields as `rbench.execution.cluster.child.run` does."""
    from rbench.execution.cluster import child

    devices = visible_gpus() if shared.on_gpu else []
    count = shared.executor.processes or len(devices) or 1
    cpus = shared.executor.cpus or max(1, cores() // count)
    around = [{"CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} if devices else {} for i in range(count)]
    command = shared.command(cpus=cpus, gpus=bool(devices), seen=False)
    _begin(progress, count, f"on this machine, each with {_said(cpus, 1 if devices else 0)}")
    yield from child.run(command, around, shared.names(count, "process"), over)


def ray_actors(shared: Shared, over: Over, progress: Progress) -> Generator[str | None]:
    """Run the suite in actors of a Ray cluster; yields as `rbench.execution.cluster.ray_actors.run` does."""
    from rbench.execution.cluster import ray_actors as ray

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
    """Submit tasks to SLURM, and wait for them if wanted; yields as `rbench.execution.cluster.slurm.wait` does."""
    from rbench.execution.cluster import slurm

    asked_for, count = shared.executor, shared.executor.processes or 1
    gpus = bool(asked_for.gpus) or bool({"gpus", "gres", "gpus-per-node", "gpus-per-task"} & asked_for.sbatch.keys())
    shared.leave_sign()  # it stays: tasks may begin in days
    command = shared.command(cpus=asked_for.cpus, gpus=gpus, seen=True, report=True)
    shared.below.make_folder(shared.folder / "slurm")
    jobs = slurm.submit(command, shared.names(count, "task"), asked_for, shared.folder / "slurm")
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


EVERY = 1.0
"""Seconds between two looks, or ten times as long as a look takes."""
SHOWN = 2
"""Jobs under way that are named."""


class Following:
    """Follows the jobs that other processes run. It takes none.

    Args:
        board: made before the processes start, so that it tells their records from older ones.
    """

    def __init__(
        self,
        todo: list[Job],
        team: Team,
        board: TeamBoard,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {job.key: job for job in todo}
        self._count, self._team, self._board, self._progress = len(todo), team, board, progress
        self._clock, self._next = clock, 0.0
        self.failed: list[Record] = []
        self.skipped: list[Job] = []

    @property
    def over(self) -> bool:
        """Whether every job has ended, or needs one that failed."""
        self._settle()
        return not self._left

    @property
    def left(self) -> list[Job]:
        """The jobs that have not ended."""
        return [*self._left.values()]

    def look(self) -> None:
        """Show what has changed, unless the last look was a moment ago."""
        if (began := self._clock()) < self._next:
            return
        self._settle()
        doing = [one["doing"] for one in self._team.members.living()]
        at = [_step(one) for one in doing if one.get("job")]
        more = [f"{len(at) - SHOWN} more"] if len(at) > SHOWN else []
        text = "; ".join([*self._trouble(), *at[:SHOWN], *more])
        self._progress.update(self._count - len(self._left), self._count, text)
        self._next = self._clock() + max(EVERY, 10 * (self._clock() - began))

    def _trouble(self) -> list[str]:
        """Return what is to be seen at each look, since jobs that failed or are not run count as ended."""
        failed = [f"{len(self.failed)} failed"] if self.failed else []
        return [*failed, *([f"{len(self.skipped)} not run"] if self.skipped else [])]

    def _settle(self) -> None:
        """Take note of the jobs that ended."""
        gone = {record.job.key for record in self.failed} | {job.key for job in self.skipped}
        for job in [*self._left.values()]:
            if gone.intersection(job.needs.values()):
                gone.add(job.key)
                self.skipped.append(self._left.pop(job.key))
            elif (record := self._board.ended(job, needed=False)) is not None:
                del self._left[job.key]
                failed = record.status == "failed"
                self._progress.note(f"{job.name}: failed: {record.reason}" if failed else f"{job.name}: complete")
                if failed:
                    gone.add(job.key)
                    self.failed.append(record)


def _step(doing: dict[str, object]) -> str:
    return f"{doing['job']} {doing.get('done')}/{doing['total']}" if doing.get("total") else str(doing["job"])


Starter = Callable[[Shared, Callable[[], bool], Progress], Generator[str | None]]
STARTERS: dict[str, Starter] = {"local": local, "ray": ray_actors, "slurm": slurm_tasks}


def spread(
    suite: str | dict[str, JsonValue], prepared: Prepared, options: Options, executor: Executor, progress: Progress
) -> Ran:
    """Run a prepared suite in processes that `executor` says, and say what became of its jobs.

    Ctrl-C and SIGTERM end the processes in order. Tasks of SLURM go on.

    Args:
        suite: as in a `Request`.
    """
    if executor.kind == "local":
        device_of(options.device)
    with joined(prepared, options, progress) as run:
        pass  # the plan is written and all is checked; from here on the others are the team
    if not run.todo:
        return Ran(run)
    shared = Shared(suite, run.prepared, options, executor, run.team.folder.absolute())
    following = Following(run.todo, run.team, TeamBoard(run.team, run.store, run.cache, run.todo), progress)
    with closing(STARTERS[executor.kind](shared, lambda: following.over, progress)) as steps:
        for said in steps:
            following.look() if said is None else progress.note(said)
    if shared.submitted and not executor.wait:
        return Ran(run, elsewhere=run.todo, submitted=shared.submitted)
    left = [] if following.over else following.left
    progress.finish("not complete" if left or following.failed else "complete")
    return Ran(run, following.failed, following.skipped, left=left)
