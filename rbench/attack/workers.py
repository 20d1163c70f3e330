"""A cell's examples, shared out among processes: on a CPU, one a core.

Several processes with one thread each beat one process with several threads, because what is not matrix arithmetic
(TextAttack's Python, tokenisation, tagging) then has all the cores too. On two cores,
TextFooler on 60 texts of MR took 0.28 s a text in one process with two threads and 0.14 s in two with one
(`benchmarks/scaling.py --parts grid`). Each process holds its own victim and resources.
"""

from __future__ import annotations

import logging
import os
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rbench.attack.engine import POOLED, Cell, Engine, How
from rbench.errors import JobError, RbenchError
from rbench.spec import Outcome
from rbench.system import processes
from rbench.tasks import Example

log = logging.getLogger("rbench")

MOST = 8
MEMORY_EACH = 3 << 30
"""A process with PyTorch, a base-sized victim, a masked LM and word vectors."""
FEW = 8
"""So many examples are done before other processes have started."""
AHEAD = 1
"""Examples a process holds beside those under way, so that it does not wait for the next."""
ROUNDS = 4
"""A process has no more examples under way than leave so many rounds, so that near the end all have something to do."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sensible(device: str) -> int:
    """How many processes: one a core as far as memory goes, at most 8; one where a GPU does the arithmetic."""
    if not device.startswith("cpu"):
        return 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else MEMORY_EACH
    return max(1, min(cores(), MOST, memory // MEMORY_EACH))


class Workers:
    """Runs cells in `count` processes, which start with the first cell that is large enough, and stay.

    An attack that is a user's own file never runs in this process, also where `count` is 1: what ends a process
    (`os._exit`, a crash of native code) then ends one job, and the run goes on.

    Args:
        count: processes; 1: this one, but for users' own attacks.
        how: what each of them is to do.
    """

    def __init__(self, count: int, how: How) -> None:
        self.count, self.how = count, how
        self._here = Engine(how)
        self._others: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def warm_up(self, largest: int) -> None:
        """Begin, in the background, to import what processes need, if the `largest` cell's examples are worth them."""
        if self.count > 1 and largest > FEW and (context := processes.context()).get_start_method() == "forkserver":
            from multiprocessing import forkserver

            context.set_forkserver_preload([__name__])
            with processes.starting():
                forkserver.ensure_running()

    def run(self, cell: Cell, examples: Iterable[Example]) -> Iterator[Outcome]:
        """One outcome an example, in the order in which they end; several processes begin with the longest.

        Raises:
            JobError: a process died; the outcomes that were yielded stand. What an example raises is in its outcome,
                what the victim or a resource raises is raised here.
        """
        todo = deque(examples)
        enough = self.count > 1 and len(todo) > FEW
        if not self._others and not (todo and (enough or cell.foreign)):
            yield from self._here.run(cell, todo)
            return
        try:
            yield from self._shared_out(cell, todo)
        except BaseException:
            self.close()  # what is under way in them belongs to a run that is over
            raise

    @property
    def started(self) -> bool:
        """Whether examples go to processes of their own by now."""
        return bool(self._others)

    def backend(self, cell: Cell) -> str:
        """What computes the victim of a cell."""
        return self._others[0].backend if self._others else self._here.backend(cell)

    def close(self) -> None:
        """End the processes."""
        for worker in self._others:
            worker.end()
        self._others = []

    def _shared_out(self, cell: Cell, todo: deque[Example]) -> Iterator[Outcome]:
        self._here = Engine(self.how)  # what it held, the processes hold from now on
        while len(self._others) < self.count:
            self._others.append(_Worker.start(self.how, max(1, cores() // self.count)))
        at_once = self.how.pooled or POOLED["cpu" if self.count > 1 else self.how.device.split(":")[0]]
        pooled = max(1, min(at_once, len(todo) // (ROUNDS * self.count)))
        todo = deque(sorted(todo, key=_length, reverse=True))  # the longest first: the last ones end together
        for worker in self._others:
            worker.file = cell.path if cell.foreign else None
            worker.send((cell, pooled))
            worker.last_sent = False
        for _ in range(pooled + (AHEAD if len(todo) > ROUNDS * self.count else 0)):
            for worker in self._others:
                worker.give(todo)
        busy = {worker.connection: worker for worker in self._others}
        while busy:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                message = worker.receive()
                if isinstance(message, Outcome):
                    worker.give(todo)
                    yield message
                elif isinstance(message, _Done):
                    worker.backend = message.backend
                    del busy[worker.connection]
                else:
                    raise message


@dataclass
class _Worker:
    process: Any
    connection: Connection
    backend: str = ""
    last_sent: bool = field(default=False)
    file: Path | None = None
    """The user's own file behind the attack under way."""

    @classmethod
    def start(cls, how: How, threads: int) -> _Worker:
        context = processes.context()
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, how, threads), daemon=True, name="rbench worker")
        with processes.starting():
            process.start()
        theirs.close()  # so that its end is noticed
        return cls(process, ours)

    def send(self, what: Any) -> None:
        try:
            self.connection.send(what)
        except OSError as error:
            raise self._died() from error

    def receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error

    def give(self, todo: deque[Example]) -> None:
        """The next example, or word that there is none."""
        if not self.last_sent:
            self.last_sent = not todo
            self.send(todo.popleft() if todo else None)

    def _died(self) -> JobError:
        self.process.join(timeout=5)
        code = self.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        memory = " It may have run out of memory: use fewer --workers." if code == -signal.SIGKILL else ""
        own = f" The attack's file {self.file} may have ended it: see that it does not." if self.file else ""
        return JobError(f"a worker process ended {how}.{memory}{own} Run the command again to go on where it was.")

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(timeout=5)


def _length(example: Example) -> int:
    return sum(map(len, example.texts))


@dataclass(frozen=True)
class _Done:
    backend: str


class _ParentGone(Exception):
    """The other end of the connection is closed: there is nobody to work for."""


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


def _serve(connection: Connection, how: How, threads: int) -> None:
    """The life of a worker: a cell, its examples up to None, the outcomes of each, and word that they are all."""
    import threadpoolctl
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    torch.set_num_threads(threads)
    threadpoolctl.threadpool_limits(threads)  # numpy's: its idle threads spin, on the other workers' cores
    engine, parent = Engine(how), _Parent(connection)
    try:
        while True:
            cell, pooled = parent.recv()
            try:
                for outcome in engine.run(cell, iter(parent.recv, None), pooled):
                    parent.send(outcome)
                parent.send(_Done(engine.backend(cell)))
            except _ParentGone:
                raise
            except BaseException as error:  # sys.exit in a user's file too
                said = isinstance(error, RbenchError)
                parent.send(error if said else JobError(f"a worker process failed:\n{traceback.format_exc()}"))
                while True:
                    parent.recv()  # examples on their way here, and then that the parent has closed
    except _ParentGone:
        return
