"""A function over many items in several processes that start anew: none of them has PyTorch, or its threads.

A process forked from one whose threads hold locks may wait for ever; these are forked from a server that has imported
the function's module alone, or where there is none, started fresh. What a function raises is raised by the caller.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from rbench.errors import JobError
from rbench.system import processes

CHUNK = 250
"""Items that a process is given at a time."""
T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """Maps over chunks of items: in `count` processes, or here where that is less than two.

    Args:
        module: what the processes import before they are asked for anything.
        begin, arguments: called by each of them first.
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
        """function(chunk) of each chunk of `items`, in their order. JobError where a process ended by itself."""
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        if self._executor is None:
            yield from map(function, chunks)
            return
        try:
            with processes.starting():  # which the first chunks do
                found = self._executor.map(function, chunks)
            yield from found
        except BrokenProcessPool as error:
            raise JobError("a process ended without a word; it may have run out of memory") from error


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    begin(*arguments)
