"""Run cells of an attack table with their examples distributed over processes (`Workers`); on a CPU, one process for
each core.

Several processes with one thread each are faster than one process with several threads, because Python code
(TextAttack's search, tokenisation, tagging) then uses all cores too. On two cores, TextFooler on 60 texts of MR took
0.28 s a text in one process with two threads, and 0.14 s in two processes with one thread each
(`benchmarks/scaling.py --parts grid`). Each process has its own victim and resources, in an `AttackEngine`.
"""

from __future__ import annotations

import itertools
import logging
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rbench.errors import JobError, RbenchError
from rbench.recipes.attacked import attacked_kind
from rbench.recipes.engine import AttackEngine, AttackTask, EngineConfig, choose_at_once
from rbench.schema import Outcome
from rbench.system import processes
from rbench.system.processes import cores, limit_threads, memory, shared_cores
from rbench.system.progress_bars import hide_progress_bars
from rbench.tasks import Example

log = logging.getLogger("rbench")

MAX_PROCESSES = 8
"""Largest default number of processes."""
MEMORY_EACH = 3 << 30
"""Bytes of memory of a process with PyTorch, a base-sized victim, a masked LM and word vectors."""
MAX_ON_GPU = 4
"""Largest default number of processes on one GPU. Eight ask about as many questions a second as four."""
GPU_MEMORY_EACH = 16 << 30
"""Bytes of a GPU's memory for each of several processes."""
FEW_EXAMPLES = 8
"""Cells with at most this many examples start no processes: they end before processes would be ready."""
TINY_CHARACTERS = 400
"""Characters of a cell that one process attacks alone: in several, each would have smaller batches."""
WAITING_EXAMPLES = 1
"""Examples that wait in a process beside those it attacks, so that it does not wait for the next."""
MIN_ROUNDS = 4
"""A process attacks at most 1 / (ROUNDS x processes) of a cell's examples at once, so that all processes still have
work near the end."""
DEATHS = 5
"""Processes that may end in a cell before it fails."""


def sensible(device: str) -> int:
    """Return the default number of processes for a device.

    On a CPU it is one for each core, at most MOST and as many as fit into memory. On a GPU Python is the limit, so it
    is up to MOST_ON_GPU, where the GPU's free memory and the cores allow; benchmarks/gpu.py measured both.
    """
    fit_in_memory = (memory() or MEMORY_EACH) // MEMORY_EACH
    if device.startswith("cpu"):
        return max(1, min(cores(), MAX_PROCESSES, fit_in_memory))
    import torch

    free_gpu_memory, _ = torch.cuda.mem_get_info(device)
    # A process keeps a core busy, and the main process too. An executor's processes share the cores that it gave them.
    return max(1, min(shared_cores() // 2, MAX_ON_GPU, fit_in_memory, free_gpu_memory // GPU_MEMORY_EACH))


class Workers:
    """Runs cells in `count` processes, which start with the first large cell and stay.

    An attack from a user's own file never runs in the main process, even if `count` is 1. If it ends its process
    (`os._exit`, a crash of native code), one job fails and the run goes on. Functions and endpoints are asked from the
    main process only, whatever attacks them: a function may hold a network, and an endpoint's limits are for all.

    Args:
        count: number of processes. 1: the main process, except for users' own attacks.
        config: the settings of each process.
    """

    def __init__(self, count: int, config: EngineConfig) -> None:
        self.count, self.config = count, config
        self._engine = AttackEngine(config)
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def warm_up(self, largest: int) -> None:
        """Start to import in the background what the processes need, if they will be used.

        `largest` is the number of examples of the largest cell.
        """
        if (
            self.count > 1
            and largest > FEW_EXAMPLES
            and (context := processes.process_context()).get_start_method() == "forkserver"
        ):
            from multiprocessing import forkserver

            context.set_forkserver_preload(["rbench.recipes.preload"])
            with processes.start_safely(deaf=True):
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
        all_examples = [*examples] if expected is None else None
        expected = len(all_examples) if all_examples is not None else expected or 0
        todo = iter(examples if all_examples is None else all_examples)
        worth_processes = self.count > 1 and expected > FEW_EXAMPLES
        apart = apart or attack_task.foreign
        longest_first = sorted(all_examples or (), key=lambda example: example.length, reverse=True)
        if all_examples is None:  # its longest examples come first
            longest_first = [*itertools.islice(todo, 1)]
            todo = itertools.chain(longest_first, todo)
        is_tiny = (
            self.config.device == "cpu"
            and 0 < expected * sum(example.length for example in longest_first[:1]) <= TINY_CHARACTERS
        )
        needs_processes = apart or (worth_processes and not is_tiny)
        # Processes that have started are used for every cell: they hold the victim and the resources already.
        in_main_process = not self._workers and not (expected and needs_processes)
        if attack_task.asked or in_main_process:
            with nullcontext() if attack_task.asked else _limit_gpu_threads(self.config.device):
                yield from self._engine.run(attack_task, todo)
            return
        if all_examples is not None:
            todo = iter(longest_first)  # so that processes end together
        try:
            yield from self._distribute(attack_task, todo, expected, 1 if is_tiny else self.count)
        except BaseException:
            self.close()  # the processes still work for a run that has ended
            raise

    @property
    def started(self) -> bool:
        """Whether worker processes are running."""
        return bool(self._workers)

    def backend(self, attack_task: AttackTask) -> str:
        """Return the name of the back-end that computes the victim of a cell."""
        in_main_process = attack_task.asked or not self._workers
        return self._engine.backend(attack_task) if in_main_process else self._workers[0].backend

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _distribute(
        self, attack_task: AttackTask, todo: Iterator[Example], expected: int, count: int
    ) -> Iterator[Outcome]:
        self._engine = AttackEngine(self.config)  # frees its victim and resources, which the processes load themselves
        todo, max_at_once = choose_at_once(todo, self.config)
        max_at_once = self.config.pooled or max_at_once
        pooled = max_at_once if count == 1 else max(1, min(max_at_once, expected // (MIN_ROUNDS * count)))
        num_sent = pooled + (WAITING_EXAMPLES if expected > MIN_ROUNDS * count else 0)
        suspects: deque[Example] = deque()
        deaths = 0
        while len(self._workers) < count:
            self._workers.append(_Worker.start(self.config, self._threads_each))
        working = self._workers[:count]
        for worker in working:
            worker.begin(attack_task, pooled)
        for _ in range(num_sent):
            for worker in working:
                worker.give(todo)
        busy = {worker.connection: worker for worker in working}
        while busy:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                message = worker.receive()
                if isinstance(message, Outcome):
                    del worker.given[message.example_id]
                    worker.give(_drain(suspects) if worker.alone else todo)
                    yield message
                elif isinstance(message, _CellDone):
                    worker.backend = message.backend
                    if worker.alone:  # it has attacked all that were suspected: on with the others
                        worker.enter(attack_task, pooled, todo, num_sent)
                    else:
                        del busy[worker.connection]
                elif isinstance(message, _ProcessEnded):
                    deaths += 1
                    if attack_task.foreign or deaths > DEATHS:
                        raise worker.died()
                    if worker.alone:
                        yield from (worker.blame_example(example, attack_task) for example in worker.given.values())
                    else:
                        log.warning("%s", worker.lost())
                        # Suspects are attacked one at a time, so that the next death has a single possible cause.
                        suspects += worker.given.values()
                    del busy[worker.connection]
                    worker = self._replace(worker)
                    busy[worker.connection] = worker
                    if suspects:
                        worker.enter(attack_task, 1, _drain(suspects), 1, alone=True)
                    else:
                        worker.enter(attack_task, pooled, todo, num_sent)
                else:
                    raise message

    @cached_property
    def _threads_each(self) -> int:
        """Threads of each process: a share of those that this one may have, by OMP_NUM_THREADS or its cores.

        Counted once, so that a process which takes the place of another has as many as that one. A single process
        attacks in place of this one, and has this one's threads.
        """
        return max(1, limit_threads() // self.count)

    def _replace(self, worker: _Worker) -> _Worker:
        worker.end()
        new = _Worker.start(self.config, self._threads_each)
        self._workers[self._workers.index(worker)] = new
        return new


@contextmanager
def _limit_gpu_threads(device: str) -> Iterator[None]:
    """On a GPU, give PyTorch one thread on the CPU. What is left for it there is too small to share among cores.

    With 16 threads TextFooler and TextBugger asked a fifth fewer questions in a second (`benchmarks/gpu.py`).
    """
    import torch

    num_threads = torch.get_num_threads()
    try:
        if not device.startswith("cpu"):
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(num_threads)


def _drain(examples: deque[Example]) -> Iterator[Example]:
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
        context = processes.process_context()
        parent_end, child_end = context.Pipe()
        process = context.Process(target=_serve, args=(child_end, config, threads), daemon=True, name="rbench worker")
        with processes.start_safely(deaf=True):
            process.start()
        child_end.close()  # so that `recv` notices when the process ends
        return cls(process, parent_end)

    def send(self, what: Any) -> None:
        with suppress(OSError):  # the process has ended, which `receive` says
            self.connection.send(what)

    def receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return _ProcessEnded()

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
        file_hint = f" The attack's file {self.file} may have ended it: correct the file." if self.file else ""
        return JobError(f"a worker process {self._how()}{file_hint} Run the command again to continue the job.")

    def lost(self) -> str:
        """Say what becomes of the examples of a process that has ended."""
        return f"a worker process {self._how()} Its {len(self.given)} examples are attacked again, one by one."

    def blame_example(self, example: Example, attack_task: AttackTask) -> Outcome:
        """Return the outcome of an example that ended two processes, the second one alone."""
        return Outcome(
            example_id=example.id,
            status="errored",
            original=example.texts,
            **attacked_kind(attack_task.task).truth(example, attack_task.task).fields,
            error=f"WorkerEnded: twice a process that attacked this example {self._how()}",
        )

    def _how(self) -> str:
        self.process.join(timeout=5)
        code = self.process.exitcode
        ending = f"ended by signal {-code}." if code is not None and code < 0 else f"ended with exit code {code}."
        return f"{ending} It may have run out of memory: use fewer --workers." if code == -signal.SIGKILL else ending

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(timeout=5)


class _ProcessEnded:
    """The process has ended. It has sent nothing more."""


@dataclass(frozen=True)
class _CellDone:
    backend: str


class _ParentGone(Exception):
    """The parent has closed the connection, or has ended."""


@dataclass
class _ParentConnection:
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

    For each cell the worker receives the cell, then examples up to None, and sends their outcomes and a `_CellDone`.
    """
    import threadpoolctl
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    torch.set_num_threads(threads)
    threadpoolctl.threadpool_limits(threads)  # numpy's idle threads would use the cores of the other workers
    engine, parent = AttackEngine(config), _ParentConnection(connection)
    with hide_progress_bars(), suppress(_ParentGone):
        while True:
            attack_task, pooled = parent.recv()
            try:
                for outcome in engine.run(attack_task, iter(parent.recv, None), pooled):
                    parent.send(outcome)
                parent.send(_CellDone(engine.backend(attack_task)))
            except _ParentGone:
                raise
            except BaseException as error:  # also SystemExit, from a user's file
                is_reported = isinstance(error, RbenchError)
                parent.send(error if is_reported else JobError(f"a worker process failed:\n{traceback.format_exc()}"))
                while True:
                    parent.recv()  # read the examples already sent, until the parent closes the connection
