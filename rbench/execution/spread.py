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

from pydantic import JsonValue, TypeAdapter

from rbench.errors import PlanError
from rbench.execution.cluster.executor import Executor
from rbench.execution.cluster.scheduler import JobBoard, WorkerGroup, plan_digest
from rbench.execution.run import RunOutcome, check_device, join_run
from rbench.plan.prepare import Options, PreparedSuite
from rbench.schema import Job, Plan, Record
from rbench.system.below import SafeFolder
from rbench.system.own_code import failing_in
from rbench.system.processes import cores
from rbench.system.progress import Progress

if TYPE_CHECKING:
    from rbench.execution.cluster.child import ProcessCommand


@dataclass(frozen=True)
class RunRequest:
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


_REQUEST = TypeAdapter(RunRequest)


def parse_request(text: str) -> RunRequest:
    """Read a request. Raises PlanError if it is none."""
    with failing_in("the request is of another version of rbench", PlanError):
        return _REQUEST.validate_json(text)


def digest_without_texts(plan: Plan) -> str:
    """Return what is the same for two plans with the same jobs of the same suite."""
    return plan_digest(plan.model_copy(update={"texts": True}))


WORKER = "rbench.cli.worker"
"""The module that a process runs."""
PASSED_ON = ("RBENCH_", "HF_", "NLTK_DATA", "OMP_NUM_THREADS", "TRANSFORMERS_", "TOKENIZERS_", "PYTHONPATH")
"""Environment variables with these beginnings are set on the machines of a Ray cluster, too."""
IsOver = Callable[[], bool]


@dataclass(frozen=True)
class SharedRun:
    """What all processes of a run are told."""

    suite: str | dict[str, JsonValue]
    """As in a `RunRequest`."""
    prepared: PreparedSuite
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

    def command(self, *, cpus: int | None, gpus: bool, seen: bool, report: bool = False) -> ProcessCommand:
        """Return what each process runs.

        Args:
            cpus: its cores; None: those that it finds.
            gpus: whether it has a GPU.
            seen: whether it may be on another machine, and must see the file `seen_by`.
            report: whether the last process writes the RUN's report.
        """
        from rbench.execution.cluster.child import ProcessCommand

        workers = self.options.workers if self.options.workers is not None or gpus else cpus
        options = dataclasses.replace(self.options, out=self.prepared.run.absolute(), workers=workers)
        # This process has done both, once for all. Others may start much later.
        options = dataclasses.replace(options, fresh=False, retry_timeouts=False)
        request = RunRequest(self.suite, options, digest_without_texts(self.prepared.plan), report)
        threads = {} if cpus is None or "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(cpus)}
        return ProcessCommand(
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
    def below(self) -> SafeFolder:
        """The RUN, in which no link is followed."""
        return SafeFolder(self.prepared.run.absolute())

    def leave_sign(self) -> None:
        """Write the file `seen_by`."""
        self.below.replace(self.seen_by, b"")

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU may be used, if there is one."""
        return self.options.device != "cpu"


def check_executor(executor: Executor) -> None:
    """Raise ResourceError if the executor cannot work here: a package is missing, or no cluster answers."""
    if executor.kind == "ray":
        from rbench.execution.cluster import ray_actors as ray

        ray.check_ray(_ray_address(executor))
    elif executor.kind == "slurm":
        from rbench.execution.cluster import slurm

        slurm.check_slurm(executor.cluster)


def run_locally(shared: SharedRun, over: IsOver, progress: Progress) -> Generator[str | None]:
    """Run the suite in processes of this machine; yields as `rbench.execution.cluster.child.run_processes` does."""
    from rbench.execution.cluster import child

    devices = visible_gpus() if shared.on_gpu else []
    count = shared.executor.processes or len(devices) or 1
    cpus = shared.executor.cpus or max(1, cores() // count)
    environments = [{"CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} if devices else {} for i in range(count)]
    command = shared.command(cpus=cpus, gpus=bool(devices), seen=False)
    _show_start(progress, count, f"on this machine, each with {_describe_share(cpus, 1 if devices else 0)}")
    yield from child.run_processes(command, environments, shared.names(count, "process"), over)


def run_on_ray(shared: SharedRun, over: IsOver, progress: Progress) -> Generator[str | None]:
    """Run the suite in actors of a Ray cluster; yields as `rbench.execution.cluster.ray_actors.run_actors` does."""
    from rbench.execution.cluster import ray_actors as ray

    executor, address = shared.executor, _ray_address(shared.executor)
    shared.leave_sign()
    wanted = (executor.processes or 1) * (executor.cpus or 1)
    try:
        with ray.connect_cluster(address, max(cores(), wanted)) as machines:
            gpus = executor.gpus
            if gpus is None:
                gpus = 1.0 if shared.on_gpu and any(machine.gpus >= 1 for machine in machines) else 0.0
            count, cpus = ray.divide_cluster(machines, executor.processes, executor.cpus, gpus)
            command = shared.command(cpus=cpus, gpus=gpus > 0, seen=True)
            passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
            command = dataclasses.replace(command, environment={**passed_on, **command.environment})
            _show_start(progress, count, f"on Ray, each with {_describe_share(cpus, gpus)}")
            yield from ray.run_actors(command, cpus, gpus, shared.names(count, "process"), over)
    finally:
        shared.below.remove(shared.seen_by)


def run_on_slurm(shared: SharedRun, over: IsOver, progress: Progress) -> Generator[str | None]:
    """Submit tasks to SLURM, and wait for them if wanted; yields as `rbench.execution.cluster.slurm.wait_for_tasks`
    does."""
    from rbench.execution.cluster import slurm

    executor, count = shared.executor, shared.executor.processes or 1
    gpus = bool(executor.gpus) or bool({"gpus", "gres", "gpus-per-node", "gpus-per-task"} & executor.sbatch.keys())
    shared.leave_sign()  # it stays: tasks may begin in days
    command = shared.command(cpus=executor.cpus, gpus=gpus, seen=True, report=True)
    shared.below.make_folder(shared.folder / "slurm")
    jobs = slurm.submit(command, shared.names(count, "task"), executor, shared.folder / "slurm")
    shared.submitted.extend(str(job.job_id) for job in jobs)
    if not shared.executor.wait:
        return
    _show_start(progress, count, f"in the tasks {', '.join(shared.submitted[:3])}{' ...' if count > 3 else ''}")
    with closing(slurm.wait_for_tasks(jobs, over)) as steps:
        yield from steps


def _show_start(progress: Progress, count: int, how: str) -> None:
    progress.start(f"{count} process{'es' if count > 1 else ''} {how}", 1, 1)


def _describe_share(cpus: int, gpus: float) -> str:
    said = f"{cpus} core{'s' if cpus > 1 else ''}"
    return f"{said} and {gpus:g} GPU{'s' if gpus > 1 else ''}" if gpus else said


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    listed = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return listed[:count] if listed else [str(i) for i in range(count)]


def _ray_address(executor: Executor) -> str:
    return executor.address or os.environ.get("RAY_ADDRESS") or "local"


LOOK_EVERY = 1.0
"""Seconds between two looks, or ten times as long as a look takes."""
MAX_SHOWN = 2
"""Jobs under way that are named."""


class JobFollower:
    """Follows the jobs that other processes run. It takes none.

    Args:
        board: made before the processes start, so that it tells their records from older ones.
    """

    def __init__(
        self,
        todo: list[Job],
        team: WorkerGroup,
        board: JobBoard,
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
        self._collect_ended()
        return not self._left

    @property
    def left(self) -> list[Job]:
        """The jobs that have not ended."""
        return [*self._left.values()]

    def look(self) -> None:
        """Show what has changed, unless the last look was a moment ago."""
        began = self._clock()
        if began < self._next:
            return
        self._collect_ended()
        doing = [member["doing"] for member in self._team.members.living()]
        steps = [_describe_step(activity) for activity in doing if activity.get("job")]
        more = [f"{len(steps) - MAX_SHOWN} more"] if len(steps) > MAX_SHOWN else []
        text = "; ".join([*self._count_failures(), *steps[:MAX_SHOWN], *more])
        self._progress.update(self._count - len(self._left), self._count, text)
        self._next = self._clock() + max(LOOK_EVERY, 10 * (self._clock() - began))

    def _count_failures(self) -> list[str]:
        """Return what is to be seen at each look, since jobs that failed or are not run count as ended."""
        failed = [f"{len(self.failed)} failed"] if self.failed else []
        return [*failed, *([f"{len(self.skipped)} not run"] if self.skipped else [])]

    def _collect_ended(self) -> None:
        """Take note of the jobs that ended."""
        failed_or_skipped = {record.job.key for record in self.failed} | {job.key for job in self.skipped}
        # In the order of the plan, so that one pass also finds what needs a job that was just found to be skipped.
        for job in [*self._left.values()]:
            # Before its record is looked at: a job whose needs failed gets none, and would be waited for in vain.
            if failed_or_skipped.intersection(job.needs.values()):
                failed_or_skipped.add(job.key)
                self.skipped.append(self._left.pop(job.key))
            elif (record := self._board.ended(job, needed=False)) is not None:
                del self._left[job.key]
                failed = record.status == "failed"
                self._progress.note(f"{job.name}: failed: {record.reason}" if failed else f"{job.name}: complete")
                if failed:
                    failed_or_skipped.add(job.key)
                    self.failed.append(record)


def _describe_step(doing: dict[str, object]) -> str:
    return f"{doing['job']} {doing.get('done')}/{doing['total']}" if doing.get("total") else str(doing["job"])


Starter = Callable[[SharedRun, Callable[[], bool], Progress], Generator[str | None]]
STARTERS: dict[str, Starter] = {"local": run_locally, "ray": run_on_ray, "slurm": run_on_slurm}


def spread(
    suite: str | dict[str, JsonValue], prepared: PreparedSuite, options: Options, executor: Executor, progress: Progress
) -> RunOutcome:
    """Run a prepared suite in processes that `executor` says, and say what became of its jobs.

    Ctrl-C and SIGTERM end the processes in order. Tasks of SLURM go on.

    Args:
        suite: as in a `RunRequest`.
    """
    if executor.kind == "local":
        check_device(options.device)
    # Joined and left again at once: this process takes no job, and as a member it would seem to run some.
    with join_run(prepared, options, progress) as run:
        pass  # the plan is written and all is checked; from here on the others are the team
    if not run.todo:
        return RunOutcome(run)
    shared = SharedRun(suite, run.prepared, options, executor, run.team.folder.absolute())
    follower = JobFollower(run.todo, run.team, JobBoard(run.team, run.store, run.cache, run.todo), progress)
    with closing(STARTERS[executor.kind](shared, lambda: follower.over, progress)) as steps:
        for note in steps:
            follower.look() if note is None else progress.note(note)
    if shared.submitted and not executor.wait:
        return RunOutcome(run, elsewhere=run.todo, submitted=shared.submitted)
    left = [] if follower.over else follower.left
    progress.finish("not complete" if left or follower.failed else "complete")
    return RunOutcome(run, follower.failed, follower.skipped, left=left)
