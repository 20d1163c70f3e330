"""Map a function over many items in several processes, none of which has PyTorch or its threads.

A process that is forked while other threads hold locks may hang. These processes are forked from a server that has
imported only the function's module; without fork servers they are started fresh. Exceptions of the function are raised
in the caller.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from rbench.errors import JobError
from rbench.system import processes

CHUNK = 250
"""Number of items that a process gets at a time."""
T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """Map over chunks of items in `count` processes, or in this process if `count` is below 2.

    Args:
        count: number of processes.
        module: the module that processes import first.
        begin, arguments: each process calls begin(*arguments) once, at its start.
    """

    def __init__(self, count: int, module: str, begin: Callable[..., None], *arguments: Any) -> None:
        self._executor: ProcessPoolExecutor | None = None
        if count < 2:
            return
        context = processes.context()
        if context.get_start_method() == "forkserver":
            context.set_forkserver_preload([module])
        self._executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(begin, arguments))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=error[0] is None, cancel_futures=True)

    def map(self, function: Callable[[Sequence[T]], list[R]], items: Sequence[T]) -> Iterator[list[R]]:
        """Yield function(chunk) for each chunk of `items`, in order. JobError if a process died."""
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        if self._executor is None:
            yield from map(function, chunks)
            return
        try:
            with processes.starting(deaf=True):  # the first chunks start the processes
                found = self._executor.map(function, chunks)
            yield from found
        except BrokenProcessPool as error:
            raise JobError("a worker process died without an error; it may have run out of memory") from error


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    begin(*arguments)
