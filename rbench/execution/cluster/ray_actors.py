"""Run a command in actors of a Ray cluster, and start another actor for each that is lost.

An actor holds the cores and the share of a GPU that its process uses. The process has its own memory and dies with it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rbench.errors import RbenchError, ResourceError
from rbench.execution.cluster.child import (
    FINISHED,
    GRACE,
    REFUSED,
    ChildProcess,
    ProcessCommand,
    RestartLimit,
    describe_exit,
)
from rbench.system import processes
from rbench.system.own_code import failing_in

PAUSE = 0.5
REACHED_WITHIN = 5.0
"""Seconds within which a cluster answers."""
OBJECT_STORE_BYTES = 100 << 20
"""Bytes of the object store of a cluster that is started for a run. Nothing large is in it."""
NOTE_WAITING_AFTER = 30.0
"""Seconds after which it is said that processes wait for a place in the cluster."""

HOW_TO_RESUME = "Finished work is kept: run the same command again, without --fresh, to resume."


class _Actor:
    """A process on some machine of the cluster."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._ended = False

    def run(self, command: ProcessCommand, name: str) -> tuple[int, str]:
        """Run a command to its end. Returns its exit code, and the last line that it printed."""
        try:
            self._child = ChildProcess(command, name)
        except RbenchError as error:
            return REFUSED, f"error: {error}"
        if self._ended:
            self._child.ask_to_end()
        code = self._child.wait()
        assert code is not None
        return code, self._child.last_line()

    def where(self) -> str:
        """Return the name of the machine, as soon as the actor has a place."""
        return socket.gethostname()

    def end(self) -> None:
        """End the process in order."""
        self._ended = True
        if self._child is not None:
            self._child.ask_to_end()
            self._child.end()


def check_ray(address: str | None) -> None:
    """Raise ResourceError if Ray is not installed, or if no cluster answers at `address`."""
    try:
        import ray
    except ImportError as error:
        raise ResourceError('--executor ray needs the package ray: pip install "rbench[ray]"') from error
    if ray.is_initialized() or address in (None, "auto", "local"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN).close()
    except (OSError, OverflowError, ValueError) as error:
        raise ResourceError(
            f"--address {address}: no Ray cluster answers there ({error}). An address is HOST:PORT, ray://HOST:PORT or "
            "auto. `ray start --head` starts a cluster and prints its address, and `ray status` on its first machine "
            "shows it. Without --address a cluster of this machine alone is started for the run."
        ) from error


@dataclass(frozen=True)
class ClusterNode:
    """What a machine of the cluster has."""

    cpus: float
    gpus: float


@contextmanager
def connect_cluster(address: str, cpus: int) -> Iterator[list[ClusterNode]]:
    """Connect to the cluster at `address`, or start one while the block lasts, where the address is `local`.

    Yields its machines. Raises ResourceError if there is no connection.

    Args:
        cpus: cores of a cluster that is started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no message to Ray's makers about a user's benchmark
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do by default; it warns otherwise
    import ray

    started_here = not ray.is_initialized()
    if started_here:
        local_options = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "num_cpus": cpus}
        with failing_in(f"--executor ray: no connection to {address}"), processes.start_safely():
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level="error",
                **(local_options if address == "local" else {}),
            )
    try:
        resources = [node.get("Resources", {}) for node in ray.nodes() if node.get("Alive")]
        yield [ClusterNode(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in resources]
    finally:
        if started_here:
            ray.shutdown()


def divide_cluster(
    machines: Sequence[ClusterNode], processes: int | None, cpus: int | None, gpus: float
) -> tuple[int, int]:
    """Return how many processes share a cluster, and the cores of each.

    Without `processes` there is one for each GPU, or share of one; or one a machine where they use no GPU. Without
    `cpus` they share the cores of the smallest machine that can hold one.

    Raises ResourceError if no machine has the GPUs that a process needs.
    """
    fit = [node for node in machines if node.cpus >= (cpus or 1) and node.gpus >= gpus]
    if not fit:
        largest = max(machines, key=lambda node: (node.gpus, node.cpus), default=ClusterNode(0, 0))
        raise ResourceError(
            f"no machine of the cluster has {cpus or 1} cores and {gpus:g} GPUs for a process; the largest has "
            f"{largest.cpus:g} and {largest.gpus:g}. Choose other --cpus-per-process and --gpus-per-process."
        )
    places = sum(int(node.gpus / gpus) for node in fit) if gpus else len(fit)
    count = processes or places
    on_each = -(-count // len(fit)) if not gpus else max(int(node.gpus / gpus) for node in fit)
    return count, cpus or max(1, int(min(node.cpus for node in fit)) // on_each)


@dataclass
class _RunningActor:
    """An actor and what it runs."""

    actor: Any
    ended: Any
    """Ray's reference to what `_Actor.run` returns."""
    where: Any
    """Ray's reference to the machine's name. There is none before the actor has a place."""


def run_actors(
    command: ProcessCommand, cpus: float, gpus: float, names: list[str], over: Callable[[], bool]
) -> Generator[str | None]:
    """Run a command in one actor for each name, until all have ended. The cluster must be connected.

    Yields as `child.run_processes` does. An actor that is lost is replaced, at most five times an hour. Actors that
    still wait for a place in the cluster when all is over are given up.

    Args:
        cpus, gpus: what each actor holds; a share of a GPU may be less than 1.

    Raises RbenchError if every process refuses to work, with the message of the last one; or if the machine of the
    cluster to which this process is connected died, since nothing starts there again.
    """
    import ray

    # No restarts by Ray: they would count no deaths. Three calls at once: `run_actors` blocks while `where` and `end`
    # answer.
    actor_options: Any = {
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": 3,
        "num_cpus": cpus,
        "num_gpus": gpus,
    }
    remote: Any = ray.remote(**actor_options)(_Actor)

    def start(name: str) -> _RunningActor:
        actor = remote.remote()
        return _RunningActor(actor, actor.run.remote(command, name), actor.where.remote())

    workers: dict[str, _RunningActor] = {}
    deaths = {name: RestartLimit() for name in names}
    refused: list[str] = []
    start_time, told_of_waiting = time.monotonic(), False
    try:
        workers = {name: start(name) for name in names}
        while workers:
            yield None
            ray.wait([worker.ended for worker in workers.values()], timeout=PAUSE)
            for name, worker in [*workers.items()]:
                result = _poll_result(worker.ended)
                if result is None:
                    continue
                code, last_line = result
                del workers[name]
                ray.kill(worker.actor)
                if code == FINISHED or over():
                    continue
                last_line = _describe_end(name, code, last_line)
                if code == REFUSED:
                    refused.append(last_line.partition(": ")[2])
                    yield last_line
                elif deaths[name].allows_restart():
                    workers[name] = start(name)
                    yield f"{last_line}. Another one was started."
                else:
                    yield f"{last_line}. It died {deaths[name].most + 1} times in an hour and is not started again."
            waiting = [name for name, worker in workers.items() if not _has_place(worker)]
            if waiting and len(waiting) == len(workers) and over():
                return
            if waiting and not told_of_waiting and time.monotonic() - start_time > NOTE_WAITING_AFTER:
                told_of_waiting = True
                yield f"{', '.join(waiting)}: no place in the cluster yet (each needs {cpus:g} cores, {gpus:g} GPUs)"
        if len(refused) == len(names):
            raise RbenchError(refused[-1].removeprefix("error: "))
    finally:
        _end_all([*workers.values()])


def _poll_result(reference: Any) -> tuple[int | None, str] | None:
    """Return the exit code and the last line of a process that ended; no code if its actor was lost."""
    import ray

    if not ray.wait([reference], timeout=0)[0]:
        return None
    try:
        result: tuple[int, str] = ray.get(reference)
        return result
    except ray.exceptions.RayError as error:
        return None, str(error).strip().splitlines()[0].rstrip(".")


def _describe_end(name: str, code: int | None, last_line: str) -> str:
    """Say how a process ended. Raises RbenchError if it was lost with the machine to which this one is connected."""
    if code is None and not _still_connected():
        raise RbenchError(f"{name} was lost with its machine of the Ray cluster. {HOW_TO_RESUME}")
    return f"{name} {'was lost' if code is None else f'ended with {describe_exit(code)}'}: {last_line}"


def _still_connected() -> bool:
    """Return whether the machine of the cluster lives to which this process is connected."""
    import ray

    mine = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == mine and node["Alive"] for node in ray.nodes())


def _has_place(worker: _RunningActor) -> bool:
    import ray

    return bool(ray.wait([worker.where], timeout=0)[0])


def _end_all(workers: list[_RunningActor]) -> None:
    """End all processes in order, at the same time; then their actors."""
    import ray

    placed = [worker.actor.end.remote() for worker in workers if _has_place(worker)]
    try:
        if placed:
            ray.wait(placed, num_returns=len(placed), timeout=GRACE + PAUSE)
    finally:
        for worker in workers:
            with suppress(ray.exceptions.RayError):
                ray.kill(worker.actor)
