"""Run a command in several processes of this machine, and start those again that die."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence

from rbench.errors import RbenchError
from rbench.executors.child import FINISHED, GRACE, REFUSED, Child, Command, Deaths, how

PAUSE = 0.2
"""Seconds between two looks at the processes."""


def run(
    command: Command, environments: Sequence[Mapping[str, str]], names: Sequence[str], over: Callable[[], bool]
) -> Generator[str | None]:
    """Run a command in one process for each of `environments`, until all have ended.

    Yields what a user should know of the processes, and None again and again while they work. Whoever closes this
    iterator ends the processes in order. A process that dies is started again, at most five times an hour.

    Args:
        names: the name of each process, in messages and of its log.
        over: whether all is done, so that a process that died need not be started again.

    Raises RbenchError if every process refuses to work; the message is that of the last one.
    """
    children: dict[str, Child] = {}
    deaths = {name: Deaths() for name in names}
    refused: list[str] = []
    around = dict(zip(names, environments, strict=True))
    try:
        for name in names:
            children[name] = Child(command, name, around[name])
        while children:
            yield None
            time.sleep(PAUSE)
            for name, child in [*children.items()]:
                code = child.poll()
                if code is None:
                    continue
                del children[name]
                if code == FINISHED or over():
                    continue
                said = f"{name} ended with {how(code)}: {child.last_line() or 'it printed nothing'}"
                if code == REFUSED:
                    refused.append(child.last_line())
                    yield said
                elif deaths[name].another():
                    children[name] = Child(command, name, around[name])
                    yield f"{said}. It was started again."
                else:
                    yield f"{said}. It died {deaths[name].most + 1} times in an hour and is not started again."
        if len(refused) == len(names):
            raise RbenchError(refused[-1].removeprefix("error: "))
    finally:
        _end([*children.values()])


def _end(children: Sequence[Child]) -> None:
    """End processes in order, all at the same time. A second Ctrl-C kills them."""
    try:
        for child in children:
            child.ask_to_end()
        until = time.monotonic() + GRACE
        for child in children:
            child.end(max(0.0, until - time.monotonic()))
    except KeyboardInterrupt:
        for child in children:
            child.kill()
        raise
