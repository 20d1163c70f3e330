"""Distribute the examples of a cell over processes; on a CPU, one process for each core.

Several processes with one thread each are faster than one process with several threads, because Python code
(TextAttack's search, tokenisation, tagging) then uses all cores too. On two cores, TextFooler on 60 texts of MR took
0.28 s a text in one process with two threads, and 0.14 s in two processes with one thread each
(`benchmarks/scaling.py --parts grid`). Each process has its own victim and resources.
"""

from __future__ import annotations

import logging
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rbench.attack.engine import POOLED, AttackTask, Engine, EngineConfig
from rbench.attack.run import truth
from rbench.errors import JobError, RbenchError
from rbench.spec import Outcome
from rbench.system import processes
from rbench.system.capacity import cores, limit_threads, memory
from rbench.tasks import Example

log = logging.getLogger("rbench")

MOST = 8
"""Largest default number of processes."""
MEMORY_EACH = 3 << 30
"""Bytes of memory of a process with PyTorch, a base-sized victim, a masked LM and word vectors."""
FEW = 8
"""Cells with at most this many examples start no processes: they end before processes would be ready."""
AHEAD = 1
"""Examples that wait in a process beside those it attacks, so that it does not wait for the next."""
ROUNDS = 4
"""A process attacks at most 1 / (ROUNDS x processes) of a cell's examples at once, so that all processes still have
work near the end."""
DEATHS = 5
"""Processes that may end in a cell before it fails."""


def sensible(device: str) -> int:
    """Return the default number of processes for a device.

    On a CPU it is one for each core, at most MOST and as many as fit into memory; on a GPU it is 1.
    """
    if not device.startswith("cpu"):
        return 1
    return max(1, min(cores(), MOST, (memory() or MEMORY_EACH) // MEMORY_EACH))


class Workers:
    """Runs cells in `count` processes, which start with the first large cell and stay.

    An attack from a user's own file never runs in the main process, even if `count` is 1. If it ends its process
    (`os._exit`, a crash of native code), one job fails and the run goes on. Functions and endpoints are asked from the
    main process only, whatever attacks them: a function may hold a network, and an endpoint's limits are for all.

    Args:
        count: number of processes. 1: the main process, except for users' own attacks.
        how: the settings of each process.
    """

    def __init__(self, count: int, config: EngineConfig) -> None:
        self.count, self.config = count, config
        self._engine = Engine(config)
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def warm_up(self, largest: int) -> None:
        """Start to import in the background what the processes need, if they will be used.

        `largest` is the number of examples of the largest cell.
        """
        if self.count > 1 and largest > FEW and (context := processes.context()).get_start_method() == "forkserver":
            from multiprocessing import forkserver

            context.set_forkserver_preload([__name__])
            with processes.starting(deaf=True):
                forkserver.ensure_running()

    def run(
        self, attack_task: AttackTask, examples: Iterable[Example], expected: int | None = None, *, apart: bool = False
    ) -> Iterator[Outcome]:
        """Yield one outcome for each example, in the order in which they end. Several processes start with the longest.

        If a process ends, for instance because the machine has no memory left, another takes its place. The examples
        that it had are attacked again, one at a time. The one whose process ends again is errored.

        Args:
            expected: about how many examples there are, if each is to be taken no sooner than a process needs it. Their
                order is then that of `examples`.
            apart: never attack them in the main process, even if `count` is 1, because one of them may end it.

        Raises:
            JobError: a user's own attack ended its process, or processes ended again and again. The outcomes yielded
                before remain valid.
            RbenchError: the victim or a resource raised it. An exception raised on an example is in its outcome.
        """
        whole = [*examples] if expected is None else None
        expected = len(whole) if whole is not None else expected or 0
        todo = iter(examples if whole is None else whole)
        enough = self.count > 1 and expected > FEW
        apart = apart or attack_task.foreign
        if attack_task.asked or (not self._workers and not (expected and (enough or apart))):
            yield from self._engine.run(attack_task, todo)
            return
        if whole is not None:
            todo = iter(sorted(whole, key=lambda one: one.length, reverse=True))  # so that processes end together
        try:
            yield from self._distribute(attack_task, todo, expected)
        except BaseException:
            self.close()  # the processes still work for a run that has ended
            raise

    @property
    def started(self) -> bool:
        """Whether worker processes are running."""
        return bool(self._workers)

    def backend(self, attack_task: AttackTask) -> str:
        """Return the name of the back-end that computes the victim of a cell."""
        alone = attack_task.asked or not self._workers
        return self._engine.backend(attack_task) if alone else self._workers[0].backend

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _distribute(self, attack_task: AttackTask, todo: Iterator[Example], expected: int) -> Iterator[Outcome]:
        self._engine = Engine(self.config)  # frees its victim and resources, which the processes load themselves
        at_once = self.config.pooled or POOLED["cpu" if self.count > 1 else self.config.device.split(":")[0]]
        pooled = max(1, min(at_once, expected // (ROUNDS * self.count)))
        waiting = pooled + (AHEAD if expected > ROUNDS * self.count else 0)
        suspects: deque[Example] = deque()
        deaths = 0
        while len(self._workers) < self.count:
            self._workers.append(self._start())
        for worker in self._workers:
            worker.begin(attack_task, pooled)
        for _ in range(waiting):
            for worker in self._workers:
                worker.give(todo)
        busy = {worker.connection: worker for worker in self._workers}
        while busy:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                message = worker.receive()
                if isinstance(message, Outcome):
                    del worker.given[message.example_id]
                    worker.give(_drained(suspects) if worker.alone else todo)
                    yield message
                elif isinstance(message, _Done):
                    worker.backend = message.backend
                    if worker.alone:  # it has attacked all that were suspected: on with the others
                        worker.enter(attack_task, pooled, todo, waiting)
                    else:
                        del busy[worker.connection]
                elif isinstance(message, _Ended):
                    deaths += 1
                    if attack_task.foreign or deaths > DEATHS:
                        raise worker.died()
                    if worker.alone:
                        yield from (worker.blamed(one, attack_task) for one in worker.given.values())
                    else:
                        log.warning("%s", worker.lost())
                        suspects += worker.given.values()
                    del busy[worker.connection]
                    worker = self._replace(worker)
                    busy[worker.connection] = worker
                    if suspects:
                        worker.enter(attack_task, 1, _drained(suspects), 1, alone=True)
                    else:
                        worker.enter(attack_task, pooled, todo, waiting)
                else:
                    raise message

    @cached_property
    def _threads(self) -> int:
        """Threads of each process: a share of those that this one may have, by OMP_NUM_THREADS or its cores.

        Counted once, so that a process which takes the place of another has as many as that one. A single process
        attacks in place of this one, and has this one's threads.
        """
        return max(1, limit_threads() // self.count)

    def _start(self) -> _Worker:
        return _Worker.start(self.config, self._threads)

    def _replace(self, worker: _Worker) -> _Worker:
        worker.end()
        new = self._start()
        self._workers[self._workers.index(worker)] = new
        return new


def _drained(examples: deque[Example]) -> Iterator[Example]:
    while examples:
        yield examples.popleft()


@dataclass
class _Worker:
    process: Any
    connection: Connection
    backend: str = ""
    last_sent: bool = False
    given: dict[str, Example] = field(default_factory=dict)
    """The examples that it attacks, or that wait in it."""
    alone: bool = False
    """Whether it attacks, one at a time, examples of a process that ended."""
    file: Path | None = None
    """The user's own file of the current attack; None for other attacks."""

    @classmethod
    def start(cls, config: EngineConfig, threads: int) -> _Worker:
        context = processes.context()
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, config, threads), daemon=True, name="rbench worker")
        with processes.starting(deaf=True):
            process.start()
        theirs.close()  # so that `recv` notices when the process ends
        return cls(process, ours)

    def send(self, what: Any) -> None:
        with suppress(OSError):  # the process has ended, which `receive` says
            self.connection.send(what)

    def receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return _Ended()

    def begin(self, attack_task: AttackTask, pooled: int, *, alone: bool = False) -> None:
        """Send a cell, of which the process attacks `pooled` examples at once."""
        self.file = attack_task.path if attack_task.foreign else None
        self.given, self.last_sent, self.alone = {}, False, alone
        self.send((attack_task, pooled))

    def enter(
        self, attack_task: AttackTask, pooled: int, todo: Iterator[Example], first: int, *, alone: bool = False
    ) -> None:
        """Send a cell that others have begun, and the `first` examples of it."""
        self.begin(attack_task, pooled, alone=alone)
        for _ in range(first):
            self.give(todo)

    def give(self, todo: Iterator[Example]) -> None:
        """Send the next example, or None once there is none."""
        if not self.last_sent:
            example = next(todo, None)
            self.last_sent = example is None
            if example is not None:
                self.given[example.id] = example
            self.send(example)

    def died(self) -> JobError:
        """Return the error for a process that has ended."""
        own = f" The attack's file {self.file} may have ended it: correct the file." if self.file else ""
        return JobError(f"a worker process {self._how()}{own} Run the command again to continue the job.")

    def lost(self) -> str:
        """Say what becomes of the examples of a process that has ended."""
        return f"a worker process {self._how()} Its {len(self.given)} examples are attacked again, one by one."

    def blamed(self, example: Example, attack_task: AttackTask) -> Outcome:
        """Return the outcome of an example that ended two processes, the second one alone."""
        return Outcome(
            example_id=example.id,
            status="errored",
            original=example.texts,
            **truth(example, attack_task.task).fields,
            error=f"WorkerEnded: twice a process that attacked this example {self._how()}",
        )

    def _how(self) -> str:
        self.process.join(timeout=5)
        code = self.process.exitcode
        how = f"ended by signal {-code}." if code is not None and code < 0 else f"ended with exit code {code}."
        return f"{how} It may have run out of memory: use fewer --workers." if code == -signal.SIGKILL else how

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(timeout=5)


class _Ended:
    """The process has ended. It has sent nothing more."""


@dataclass(frozen=True)
class _Done:
    backend: str


class _ParentGone(Exception):
    """The parent has closed the connection, or has ended."""


@dataclass
class _Parent:
    connection: Connection

    def recv(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:
            raise _ParentGone from error

    def send(self, what: Any) -> None:
        try:
            self.connection.send(what)
        except OSError as error:
            raise _ParentGone from error


def _serve(connection: Connection, config: EngineConfig, threads: int) -> None:
    """Run in a worker process until the parent closes the connection.

    For each cell the worker receives the cell, then examples up to None, and sends their outcomes and a `_Done`.
    """
    import threadpoolctl
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    torch.set_num_threads(threads)
    threadpoolctl.threadpool_limits(threads)  # numpy's idle threads would use the cores of the other workers
    engine, parent = Engine(config), _Parent(connection)
    try:
        while True:
            attack_task, pooled = parent.recv()
            try:
                for outcome in engine.run(attack_task, iter(parent.recv, None), pooled):
                    parent.send(outcome)
                parent.send(_Done(engine.backend(attack_task)))
            except _ParentGone:
                raise
            except BaseException as error:  # also SystemExit, from a user's file
                said = isinstance(error, RbenchError)
                parent.send(error if said else JobError(f"a worker process failed:\n{traceback.format_exc()}"))
                while True:
                    parent.recv()  # read the examples already sent, until the parent closes the connection
    except _ParentGone:
        return
