"""Start a Python module in processes of their own on this machine, start again those that die, and end all in order.

The process reads what it is to do from its standard input, which stays open while its parent lives. If the parent is
killed, the process reads the end of its input and can end too. So no process is left behind.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rbench.errors import RbenchError
from rbench.system.below import SafeFolder

GRACE = 60.0
"""Seconds that a process has to end in order before it is killed."""
SEEN_WITHIN = 10.0
"""Seconds within which a network file system shows what another machine wrote."""
PAUSE = 0.2
"""Seconds between two looks at several processes."""
_POLL = 0.05
FINISHED = 0
"""Exit code of a process that did what it was to do. What failed meanwhile is recorded. Python ends with 1 where it
raises an exception, so that is a death."""
REFUSED = 2
"""Exit code of a process that cannot do what it is to do. Another one could not either."""


@dataclass(frozen=True)
class ProcessCommand:
    """What to start. It is the same on all machines."""

    module: str
    """Run as `python -P -m MODULE`, with the Python of the machine."""
    text: str
    """One line for its standard input."""
    folder: str
    """The folder in which it starts."""
    logs: str
    """The folder for what it prints."""
    seen: str | None = None
    """A file that must be there. It tells whether a machine sees the same folders."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables beside those of the machine."""
    run: str | None = None
    """The folder around `logs` below which no link is followed; None: `logs`."""


class ChildProcess:
    """A process that runs a command. Raises RbenchError if this machine does not see the command's folders."""

    def __init__(self, command: ProcessCommand, name: str, environment: Mapping[str, str] | None = None) -> None:
        check_folders(command)
        self.name, self.log = name, Path(command.logs) / f"{name}.log"
        self._below = SafeFolder(Path(command.run or command.logs))
        with os.fdopen(self._below.open_new(self.log), "wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", command.module],
                cwd=command.folder,
                env={**os.environ, **command.environment, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the parent alone, which ends all in order
            )
        self.pid = self._process.pid
        self._code: int | None = None
        # A thread of its own waits, because `wait` may run in a signal handler, where `Popen.wait` could deadlock.
        threading.Thread(target=self._record_end, name=f"waits for {name}", daemon=True).start()
        assert self._process.stdin is not None
        self._input: IO[bytes] = self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended already; its exit code says so
            self._input.write(command.text.encode() + b"\n")
            self._input.flush()

    def poll(self) -> int | None:
        """Return the exit code, as `subprocess` has it; None while the process lives."""
        return self._code

    def wait(self, within: float | None = None) -> int | None:
        """Return the exit code when the process has ended; None if it has not `within` seconds.

        It may be called in the handler of a signal that interrupts another call: it takes no lock.
        """
        deadline = None if within is None else time.monotonic() + within
        while self._code is None and (deadline is None or time.monotonic() < deadline):
            time.sleep(_POLL)
        return self._code

    def _record_end(self) -> None:
        code = self._process.wait()
        if code == 0:
            self._below.remove(self.log)  # what matters of it is in the records
        self._code = code

    def ask_to_end(self) -> None:
        """Ask the process to end in order, as SIGTERM does."""
        with contextlib.suppress(OSError):
            self._process.terminate()

    def end(self, within: float = GRACE) -> None:
        """Wait until the process has ended, and kill it if that takes longer than `within` seconds."""
        if self.wait(within) is None:
            self.kill()

    def kill(self) -> None:
        """Kill the process and those that it started."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self.wait()

    def last_line(self) -> str:
        """Return the last line that the process printed; "" if it printed nothing."""
        with contextlib.suppress(OSError):
            lines = self._below.read(self.log).decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""


def check_folders(command: ProcessCommand, clock: Callable[[], float] = time.monotonic) -> None:
    """Raise RbenchError unless this machine sees the RUN of a command."""
    deadline = clock() + SEEN_WITHIN
    while command.seen is not None and not Path(command.seen).exists():
        if clock() > deadline:
            raise RbenchError(
                f"{platform.node()} does not see {command.seen}, which the process that started this one wrote. "
                "All machines must see the RUN (--out) at the same path. Without a shared file system run parts of "
                "the suite on each machine and merge them: docs/scaling.md"
            )
        time.sleep(0.5)


class RestartLimit:
    """Tells whether a process that died may be started again: at most `most` times in `within` seconds."""

    def __init__(self, most: int = 5, within: float = 3600.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self._within, self._clock = most, within, clock
        self._times: list[float] = []

    def allows_restart(self) -> bool:
        """Count a death. Returns whether the process may be started again."""
        now = self._clock()
        self._times = [*(time_of_death for time_of_death in self._times if now - time_of_death < self._within), now]
        return len(self._times) <= self.most


def describe_exit(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def run_processes(
    command: ProcessCommand, environments: Sequence[Mapping[str, str]], names: Sequence[str], over: Callable[[], bool]
) -> Generator[str | None]:
    """Run a command in one process for each of `environments`, until all have ended.

    Yields what a user should know of the processes, and None again and again while they work. Whoever closes this
    iterator ends the processes in order. A process that dies is started again, at most five times an hour.

    Args:
        names: the name of each process, in messages and of its log.
        over: whether all is done, so that a process that died need not be started again.

    Raises RbenchError if every process refuses to work; the message is that of the last one.
    """
    children: dict[str, ChildProcess] = {}
    deaths = {name: RestartLimit() for name in names}
    refused: list[str] = []
    environment_by_name = dict(zip(names, environments, strict=True))
    try:
        for name in names:
            children[name] = ChildProcess(command, name, environment_by_name[name])
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
                message = f"{name} ended with {describe_exit(code)}: {child.last_line() or 'it printed nothing'}"
                if code == REFUSED:
                    refused.append(child.last_line())
                    yield message
                elif deaths[name].allows_restart():
                    children[name] = ChildProcess(command, name, environment_by_name[name])
                    yield f"{message}. It was started again."
                else:
                    yield f"{message}. It died {deaths[name].most + 1} times in an hour and is not started again."
        if len(refused) == len(names):
            raise RbenchError(refused[-1].removeprefix("error: "))
    finally:
        _end_all([*children.values()])


def _end_all(children: Sequence[ChildProcess]) -> None:
    """End processes in order, all at the same time. A second Ctrl-C kills them."""
    try:
        for child in children:
            child.ask_to_end()
        deadline = time.monotonic() + GRACE
        for child in children:
            child.end(max(0.0, deadline - time.monotonic()))
    except KeyboardInterrupt:
        for child in children:
            child.kill()
        raise
