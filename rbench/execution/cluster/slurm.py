"""Run a command in the tasks of a job array of SLURM, through submitit.

A task whose process dies starts it again. A task that reaches its time limit, or that is preempted, ends in order and
is queued again. submitit's own executor for one machine (`cluster="local"`) does the same with processes, so that all
of it can be tried without a cluster.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbench.errors import ResourceError
from rbench.execution.cluster.child import FINISHED, REFUSED, ChildProcess, ProcessCommand, RestartLimit, describe_exit
from rbench.execution.cluster.executor import Executor
from rbench.system import processes

PAUSE = 0.5
_FINAL_CODES = (REFUSED, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of a process that is not started again: it cannot work, or was asked to end."""
SIGNAL_BEFORE = 90
"""Seconds before the time limit at which a task is told to end."""
REQUEUE = 10
"""How often a task that reached its time limit is queued again."""
PARALLEL = 100_000
"""The array itself does not limit how many of its tasks run at once."""


class SlurmTask:
    """What a task runs. submitit stores it, and calls `checkpoint` at the time limit or when it is preempted."""

    def __init__(self, command: ProcessCommand, name: str) -> None:
        self.command, self.name = command, name
        self._child: ChildProcess | None = None

    def __call__(self) -> str:
        """Run the command to its end. If its process dies, start it again, at most five times an hour.

        Raises RuntimeError if it fails, so that SLURM shows the task as failed.
        """
        deaths = RestartLimit()
        while True:
            old_handler = signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # SLURM sends it to all; children inherit this
            self._child = ChildProcess(self.command, self.name)
            signal.signal(signal.SIGUSR2, old_handler)
            code = self._child.wait()
            assert code is not None
            last_line = self._child.last_line()
            if code == FINISHED:
                return last_line
            if code in _FINAL_CODES or not deaths.allows_restart():
                raise RuntimeError(f"{describe_exit(code)}: {last_line}")

    def checkpoint(self) -> Any:
        """End the process in order, and return what the task runs when it starts again."""
        from submitit.helpers import DelayedSubmission

        if self._child is not None:
            self._child.ask_to_end()
            self._child.end(within=SIGNAL_BEFORE / 2)
        # A new task and not this one: its child cannot be pickled, and has ended.
        return DelayedSubmission(SlurmTask(self.command, self.name))


def check_slurm(cluster: str | None) -> None:
    """Raise ResourceError if submitit is not installed, or if this machine cannot submit jobs."""
    try:
        import submitit  # noqa: F401
    except ImportError as error:
        raise ResourceError('--executor slurm needs the package submitit: pip install "rbench[slurm]"') from error
    missing = [name for name in ("sbatch", "srun") if shutil.which(name) is None]
    if cluster != "local" and missing:
        raise ResourceError(
            f"--executor slurm: {' and '.join(missing)} not found here. Run the command on a login node of the "
            "cluster. --cluster local tries it on this machine, and --executor local uses this machine alone."
        )


def submit(command: ProcessCommand, names: list[str], options: Executor, folder: Path) -> list[Any]:
    """Submit one task for each name, and return submitit's jobs. Raises ResourceError if SLURM refuses them.

    Args:
        folder: for submitit's files and what the tasks print. All machines must see it.
    """
    import submitit

    cluster = options.cluster or "slurm"
    requeue_parameter = {f"{cluster}_max_num_timeout": REQUEUE if options.requeue is None else options.requeue}
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster, **requeue_parameter)
    executor.update_parameters(**_submitit_parameters(options))
    try:
        with processes.start_safely(), executor.batch():
            return [executor.submit(SlurmTask(command, name)) for name in names]
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError, OSError) as error:
        raise ResourceError(f"--executor slurm: sbatch refused the job: {_last_line(error)}") from error


def _submitit_parameters(options: Executor) -> dict[str, Any]:
    """Return submitit's names of what an executor says."""
    gpus = None if options.gpus is None else int(options.gpus)
    shared: dict[str, Any] = {"timeout_min": options.minutes, "name": "rbench", "stderr_to_stdout": True}
    if options.cluster == "local":
        return {**shared, "gpus_per_node": gpus or 0}
    named_options: dict[str, Any] = {"partition": options.partition, "gpus_per_task": gpus}
    more: dict[str, Any] = {"requeue": True, **options.sbatch}
    slurm_parameters = {f"slurm_{name}": value for name, value in named_options.items() if value is not None}
    slurm_parameters |= {"slurm_additional_parameters": more, "slurm_signal_delay_s": SIGNAL_BEFORE}
    slurm_parameters |= {"slurm_array_parallelism": PARALLEL}
    return {**shared, **slurm_parameters, **({"cpus_per_task": options.cpus} if options.cpus is not None else {})}


def _last_line(error: Exception) -> str:
    """Return what sbatch itself said."""
    output = getattr(error.__cause__, "output", None) or getattr(error.__cause__, "stderr", None) or str(error)
    lines = (output.decode(errors="replace") if isinstance(output, bytes) else str(output)).strip().splitlines()
    return lines[-1] if lines else "it gave no reason"


def wait_for_tasks(jobs: list[Any], over: Callable[[], bool]) -> Generator[str | None]:
    """Wait for submitted tasks, and cancel those that are left when all is over.

    Yields as `child.run_processes` does.

    Whoever closes this iterator before that leaves the tasks to SLURM.
    """
    left = {str(job.job_id): job for job in jobs}
    while left:
        yield None
        time.sleep(PAUSE)
        for name, job in [*left.items()]:
            if not job.done():
                continue
            del left[name]
            if (error := job.exception()) is not None and not over():
                yield f"task {name} ended: {str(error).strip().splitlines()[-1]} ({job.paths.stdout})"
        if over() and all(str(job.state) in ("PENDING", "UNKNOWN") for job in left.values()):
            cancel_tasks([*left.values()])
            return


def cancel_tasks(jobs: list[Any]) -> None:
    """Cancel tasks that are not needed."""
    for job in jobs:
        with suppress(OSError, subprocess.CalledProcessError):
            job.cancel()
