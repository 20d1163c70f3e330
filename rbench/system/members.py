"""Say that this process works in a shared folder, and tell which other processes that work there still live.

    FOLDER/members/<id>.json    who, where, since when, what it does, and a number that grows with each heartbeat

A member of the same machine lives as long as its process does. Of a member elsewhere an observer sees the file alone:
it is alive while the file keeps changing. How long the file has not changed is measured by the observer's own clock,
from when the observer first saw this content. Times of two machines are never compared, so their clocks may differ.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from rbench.errors import StoreError
from rbench.system.below import SMALL, Below

BEAT = 10.0
"""Seconds between two heartbeats."""
EXPIRY = 120.0
"""Seconds without a heartbeat after which a member counts as dead. Network file systems may show a file as it was a
minute ago."""
_PAUSE = 1.0
_ID = re.compile(r"[\w-]{1,64}")
_SAID: dict[str, type] = {
    **dict.fromkeys(("host", "boot", "space", "started", "since", "plan"), str),
    **dict.fromkeys(("pid", "beat", "threads", "workers"), int),
    "doing": dict,
}
"""What a member may say of itself, and of which type it is. Numbers are at most _MOST."""
_DOING: dict[str, type] = {"job": str, "since": str, "done": int, "total": int}
_MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Identity:
    """A process: which machine, and which process of it."""

    host: str
    boot: str
    """Id of the machine's last start, so that a machine that was started again is another one. "" where unknown."""
    space: str
    """The namespace of process numbers: containers on one machine have their own. "" where unknown."""
    pid: int
    started: str
    """When the process started, in the system's own units: numbers of processes are used again. "" where unknown."""

    @classmethod
    def own(cls) -> Identity:
        """Return the identity of this process."""
        return cls(socket.gethostname(), _boot(), _space(), os.getpid(), _started(os.getpid()) or "")

    @property
    def here(self) -> bool:
        """Whether the process runs, or ran, where this process can see it."""
        return (self.host, self.boot, self.space) == (socket.gethostname(), _boot(), _space())

    @property
    def ended(self) -> bool:
        """Whether a process of this machine is known to have ended."""
        if os.name != "posix":  # elsewhere `os.kill` would end it
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # it belongs to another user
            pass
        started = _started(self.pid)
        return started is None or (bool(self.started) and started != self.started)


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _space() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _started(pid: int) -> str | None:
    """Return when a process started; None if it has ended and its parent has not noticed; "" where unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "" if not Path("/proc/self/stat").exists() else None
    return None if fields[0] in "ZX" else fields[19]


class Member:
    """This process in `folder`. Inside `present` a thread writes its heartbeats.

    Args:
        about: what others should know of it, such as the plan that it runs.
        clock: seconds that also pass while the machine sleeps.
        below: the folder below which no link is followed; None: `folder`.
    """

    def __init__(
        self,
        folder: Path,
        about: dict[str, Any],
        *,
        beat: float = BEAT,
        clock: Callable[[], float] | None = None,
        below: Below | None = None,
    ) -> None:
        self.id = secrets.token_hex(6)
        self.file = folder / "members" / f"{self.id}.json"
        self._below = below or Below(folder)
        self.about = about
        self._identity = Identity.own()
        self._since = datetime.now().astimezone().isoformat(timespec="seconds")
        self._doing: dict[str, Any] = {}
        self._beats, self._beat = 0, beat
        self._clock = clock or _awake_or_not
        self._last, self._longest = self._clock(), 0.0
        self._wake, self._ended = threading.Event(), False
        self._writing = threading.Lock()

    @property
    def silent(self) -> float:
        """The longest time so far, in seconds, in which no heartbeat was written; the present silence counts too."""
        return max(self._longest, self._clock() - self._last)

    def say(self, *, now: bool = False, **doing: Any) -> None:
        """Change what others read of this process: with the next heartbeat, or `now`."""
        self._doing = {**self._doing, **doing}
        if now:
            self._wake.set()

    def beat(self) -> None:
        """Write a heartbeat. Raises OSError if the folder cannot be written."""
        with self._writing:
            self._beats += 1
            told = {"id": self.id, **dataclasses.asdict(self._identity), "since": self._since, "beat": self._beats}
            self._below.replace(self.file, json.dumps({**told, **self.about, "doing": self._doing}).encode())
            self._longest = self.silent
            self._last = self._clock()

    @contextmanager
    def present(self) -> Iterator[None]:
        """Be a member while the block lasts. Raises OSError if the folder cannot be written."""
        self.beat()
        thread = threading.Thread(target=self._keep_beating, name="rbench heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended = True
            self._wake.set()
            thread.join(timeout=self._beat)
            with suppress(OSError):
                self._below.remove(self.file)

    def _keep_beating(self) -> None:
        while not self._ended:
            self._wake.wait(self._beat)
            self._wake.clear()
            if not self._ended:
                with suppress(
                    OSError, StoreError
                ):  # a full disk: others will take over, and this process notices (`silent`)
                    self.beat()


class Members:
    """The processes that have said that they work in `folder`, as this process sees them.

    Args:
        clock: seconds that never go backwards.
        below: as for `Member`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        expiry: float = EXPIRY,
        clock: Callable[[], float] = time.monotonic,
        below: Below | None = None,
    ) -> None:
        self.folder, self.expiry, self._clock = folder / "members", expiry, clock
        self._below = below or Below(folder)
        self._seen: dict[Path, tuple[bytes, float]] = {}

    def living(self) -> list[dict[str, Any]]:
        """Return what the living members say of themselves, the oldest first. One that cannot be read says nothing."""
        with suppress(OSError):
            files = self._files()
            found = [self._said(file) for file in files if self.alive(file.stem)]
            return sorted(found, key=lambda one: str(one.get("since", "")))
        return []

    def alive(self, name: str) -> bool:
        """Whether a member lives. One that cannot be judged counts as alive until its file has not changed for long."""
        file = self.folder / f"{name}.json"
        if not _ID.fullmatch(name) or self._below.kind(file) is None:
            return False
        identity = identity_of(self._said(file))
        if identity is not None and identity.here and identity.ended:
            return False
        return self.changing(file)

    def surely_living(
        self, told: Callable[[list[dict[str, Any]]], None], *, sleep: Callable[[float], None] = time.sleep
    ) -> list[dict[str, Any]]:
        """Return what the living members say of themselves, after a sign of life of each one on another machine.

        A file that a dead process left there looks like that of a living one until it has not changed for `expiry`.
        So this waits for its next heartbeat, and at most that long.

        Args:
            told: called once, before it waits, with those that it waits for.
        """
        first = {one["id"]: self.sign(one["id"]) for one in self.living()}
        waited = False
        while True:
            living = self.living()
            silent = [one for one in living if self.sign(one["id"]) == first.get(one["id"]) is not None]
            if not silent:
                return living
            if not waited:
                told(silent)
                waited = True
            sleep(_PAUSE)

    def sign(self, name: str) -> bytes | None:
        """Return what changes with each heartbeat of a member; None if its process is seen to run on this machine.

        b"" if its file cannot be read, or is gone: that is no sign of life.
        """
        file = self.folder / f"{name}.json"
        if self.alive(name) and (identity := identity_of(self._said(file))) is not None and identity.here:
            return None
        with suppress(OSError):
            return self._below.read(file, SMALL)
        return b""

    def changing(self, file: Path) -> bool:
        """Whether the content of a file has changed within `expiry`, as far as this process has looked at it."""
        try:
            content = self._below.read(file, SMALL)
        except FileNotFoundError:
            return False
        except OSError:
            content = b""
        before, since = self._seen.get(file, (None, 0.0))
        if content != before:
            self._seen[file] = content, self._clock()
            return True
        return self._clock() - since < self.expiry

    def sweep(self) -> None:
        """Remove the files of members that are dead."""
        for file in self._files():
            if not self.alive(file.stem):
                self._below.remove(file)

    def _said(self, file: Path) -> dict[str, Any]:
        """Return what a member says of itself. What is not of its type is left out: anybody may have written it."""
        said = _typed(read_json(self._below, file) or {}, _SAID)
        return {**said, "id": file.stem, "doing": _typed(said.get("doing", {}), _DOING)}

    def _files(self) -> list[Path]:
        return [path for path, _ in self._below.entries(self.folder) if path.suffix == ".json"]


def identity_of(said: dict[str, Any] | None) -> Identity | None:
    """Return which process a member says that it is; None if it does not say all of it."""
    with suppress(KeyError):
        return Identity(*((said or {})[field.name] for field in dataclasses.fields(Identity)))
    return None


def _typed(said: dict[str, Any], types: dict[str, type]) -> dict[str, Any]:
    found = {name: value for name, value in said.items() if type(value) is types.get(name)}
    return {name: value for name, value in found.items() if not isinstance(value, int) or 0 <= value <= _MOST}


def read_json(below: Below, file: Path) -> dict[str, Any] | None:
    """Return a mapping that a file holds; None if there is no such file, or it holds anything else."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(below.read(file, SMALL))
        return found if isinstance(found, dict) else None
    return None


def _awake_or_not() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
