"""Which processes work in a shared folder and still live, and which of them may do what.

    FOLDER/members/<id>.json           who, where, since when, what it does, and a number that grows with each heartbeat
    FOLDER/leases/<name>/<part>.<n>    the n-th lease of this part: its holder, whether it was given back, and deaths

A member of the same machine lives as long as its process does. Of a member elsewhere an observer sees the file alone:
it is alive while the file keeps changing. How long the file has not changed is measured by the observer's own clock,
from when the observer first saw this content. Times of two machines are never compared, so their clocks may differ.

Leases need no lock of the file system, and no coordinator. Who makes the file of the highest number holds the part. A
file is made in one step, and only if it is not there: of two processes that try, one succeeds. A lease is taken over,
by making the next number, once its holder gave it back or is dead. The highest file is never removed, so a process that
was stopped for long and goes on sees that there is a higher one, and stops (`Lease.check`).

A lease counts how many of its holders died with it, one after the other, and got no further (`Lease.deaths`). So what
kills every process that takes it can be told from what a process happened to do when it was killed.
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
from functools import partial
from pathlib import Path
from typing import Any

from rbench.errors import LeaseLost, StoreError
from rbench.system.below import SMALL_BYTES, SafeFolder

HEARTBEAT_SECONDS = 10.0
"""Seconds between two heartbeats."""
EXPIRY_SECONDS = 120.0
"""Seconds without a heartbeat after which a member counts as dead. Network file systems may show a file as it was a
minute ago."""
_PAUSE = 1.0
_ID = re.compile(r"[\w-]{1,64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
_MEMBER_FIELDS: dict[str, type] = {
    **dict.fromkeys(("host", "boot", "space", "started", "since", "plan"), str),
    **dict.fromkeys(("pid", "beat", "threads", "workers"), int),
    "doing": dict,
}
"""What a member may say of itself, and of which type it is. Numbers are at most _MOST."""
_DOING_FIELDS: dict[str, type] = {"job": str, "since": str, "done": int, "total": int}
_LARGEST_NUMBER = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class ProcessIdentity:
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
    def own(cls) -> ProcessIdentity:
        """Return the identity of this process."""
        return cls(socket.gethostname(), _boot_id(), _pid_namespace(), os.getpid(), _start_time(os.getpid()) or "")

    @property
    def is_here(self) -> bool:
        """Whether the process runs, or ran, where this process can see it."""
        return (self.host, self.boot, self.space) == (socket.gethostname(), _boot_id(), _pid_namespace())

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
        started = _start_time(self.pid)
        # A different start time means that another process has taken over the number.
        return started is None or (bool(self.started) and started != self.started)


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _pid_namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _start_time(pid: int) -> str | None:
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
        beat: float = HEARTBEAT_SECONDS,
        clock: Callable[[], float] | None = None,
        below: SafeFolder | None = None,
    ) -> None:
        self.id = secrets.token_hex(6)
        self.file = folder / "members" / f"{self.id}.json"
        self._below = below or SafeFolder(folder)
        self.about = about
        self._identity = ProcessIdentity.own()
        self._since = datetime.now().astimezone().isoformat(timespec="seconds")
        self._doing: dict[str, Any] = {}
        self._beats, self._beat = 0, beat
        # CLOCK_MONOTONIC stops while a laptop sleeps, but other machines go on counting this one's silence.
        boot_clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._clock = clock or partial(time.clock_gettime, boot_clock)
        self._last, self._longest = self._clock(), 0.0
        self._wake, self._ended = threading.Event(), False
        self._writing = threading.Lock()

    @property
    def longest_silence(self) -> float:
        """The longest time so far, in seconds, in which no heartbeat was written; the present silence counts too."""
        return max(self._longest, self._clock() - self._last)

    def publish(self, *, now: bool = False, **doing: Any) -> None:
        """Change what others read of this process: with the next heartbeat, or `now`."""
        self._doing = {**self._doing, **doing}
        if now:
            self._wake.set()

    def write_heartbeat(self) -> None:
        """Write a heartbeat. Raises OSError if the folder cannot be written."""
        with self._writing:
            self._beats += 1
            identity_fields = {
                "id": self.id,
                **dataclasses.asdict(self._identity),
                "since": self._since,
                "beat": self._beats,
            }
            self._below.replace(self.file, json.dumps({**identity_fields, **self.about, "doing": self._doing}).encode())
            # The silence that ends now is recorded first, because others may have taken over during it.
            self._longest = self.longest_silence
            self._last = self._clock()

    @contextmanager
    def present(self) -> Iterator[None]:
        """Be a member while the block lasts. Raises OSError if the folder cannot be written."""
        self.write_heartbeat()
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
                # If the disk is full, say, others take over the jobs of this process, which notices it (`silent`).
                with suppress(OSError, StoreError):
                    self.write_heartbeat()


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
        expiry: float = EXPIRY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        below: SafeFolder | None = None,
    ) -> None:
        self.folder, self.expiry, self._clock = folder / "members", expiry, clock
        self._below = below or SafeFolder(folder)
        self._seen: dict[Path, tuple[bytes, float]] = {}

    def living(self) -> list[dict[str, Any]]:
        """Return what the living members say of themselves, the oldest first. One that cannot be read says nothing."""
        with suppress(OSError):
            files = self._member_files()
            members = [self._said(file) for file in files if self.is_alive(file.stem)]
            return sorted(members, key=lambda member: str(member.get("since", "")))
        return []

    def is_alive(self, name: str) -> bool:
        """Whether a member lives. One that cannot be judged counts as alive until its file has not changed for long."""
        file = self.folder / f"{name}.json"
        if not _ID.fullmatch(name) or self._below.kind(file) is None:
            return False
        identity = identity_of(self._said(file))
        if identity is not None and identity.is_here and identity.ended:
            return False
        return self.is_changing(file)

    def surely_living(
        self, told: Callable[[list[dict[str, Any]]], None], *, sleep: Callable[[float], None] = time.sleep
    ) -> list[dict[str, Any]]:
        """Return what the living members say of themselves, after a sign of life of each one on another machine.

        A file that a dead process left there looks like that of a living one until it has not changed for `expiry`.
        So this waits for its next heartbeat, and at most that long.

        Args:
            told: called once, before it waits, with those that it waits for.
        """
        first_signs = {member["id"]: self.sign(member["id"]) for member in self.living()}
        waited = False
        while True:
            living = self.living()
            silent = [
                member for member in living if self.sign(member["id"]) == first_signs.get(member["id"]) is not None
            ]
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
        if self.is_alive(name):
            identity = identity_of(self._said(file))
            if identity is not None and identity.is_here:
                return None
        with suppress(OSError):
            return self._below.read(file, SMALL_BYTES)
        return b""

    def is_changing(self, file: Path) -> bool:
        """Whether the content of a file has changed within `expiry`, as far as this process has looked at it."""
        try:
            content = self._below.read(file, SMALL_BYTES)
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
        for file in self._member_files():
            if not self.is_alive(file.stem):
                self._below.remove(file)

    def _said(self, file: Path) -> dict[str, Any]:
        """Return what a member says of itself. What is not of its type is left out: anybody may have written it."""
        content = _of_known_types(self._below.read_json(file) or {}, _MEMBER_FIELDS)
        return {**content, "id": file.stem, "doing": _of_known_types(content.get("doing", {}), _DOING_FIELDS)}

    def _member_files(self) -> list[Path]:
        return [path for path, _ in self._below.entries(self.folder) if path.suffix == ".json"]


def identity_of(content: dict[str, Any] | None) -> ProcessIdentity | None:
    """Return which process a member says that it is; None if it does not say all of it."""
    with suppress(KeyError):
        return ProcessIdentity(*((content or {})[field.name] for field in dataclasses.fields(ProcessIdentity)))
    return None


def _of_known_types(content: dict[str, Any], types: dict[str, type]) -> dict[str, Any]:
    typed = {name: value for name, value in content.items() if type(value) is types.get(name)}
    return {name: value for name, value in typed.items() if not isinstance(value, int) or 0 <= value <= _LARGEST_NUMBER}


# ------------------------------------------------------------------------------------------------------------ leases


class Lease:
    """A part that this process holds. Made by `Leases.take`.

    Attributes:
        deaths: how many processes died with this part, one after the other, since one of them got further with it.
    """

    def __init__(self, leases: Leases, name: str, part: str, number: int, content: dict[str, Any]) -> None:
        self.file, self.number, self.deaths = leases.folder / name / f"{part}.{number}", number, int(content["deaths"])
        self._leases, self._of, self._said = leases, (name, part), content

    def check(self) -> None:
        """Raise LeaseLost if another process has taken over. To be called before anything is written.

        Looks at the folder only if this process was silent for so long that others might think that it is dead.
        """
        silent, (name, part) = self._leases.member.longest_silence, self._of
        if silent > self._leases.members.expiry / 2 and self._leases.parts(name).get(part, 0) != self.number:
            raise LeaseLost(
                f"another process took over what this one did, because this one gave no sign of life for "
                f"{silent:.0f} s ({self.file}). What it had written is kept. Run the same command again "
                "to go on."
            )

    def give_back(self, **said: Any) -> None:
        """End the lease. `said` is what the next holder may read."""
        self._leases.all_held.pop(self._of, None)
        with suppress(OSError):  # then it expires
            self._leases.below.replace(self.file, json.dumps({**self._said, "given_back": True, **said}).encode())


class Leases:
    """The leases in `folder`, as this process sees and takes them.

    Args:
        below: the folder below which no link is followed; None: `folder`.
    """

    def __init__(self, folder: Path, member: Member, members: Members, below: SafeFolder | None = None) -> None:
        self.folder, self.member, self.members = folder / "leases", member, members
        self.below = below or SafeFolder(folder)
        self.all_held: dict[tuple[str, str], Lease] = {}
        """All leases that this process holds, by name and part."""

    def take(self, name: str, part: str, done: str = "") -> Lease | None:
        """Take a part; None if a living process holds it, this one included. Raises OSError if it cannot be written.

        Args:
            done: what is done of the part. Deaths are counted from 0 again where it differs from what it was for the
                last holder, because that one got further.
        """
        folder = self.folder / name
        number = self.parts(name).get(part, 0)
        if number and self.holder(name, part) is not None:
            return None
        file = folder / f"{part}.{number + 1}"
        last_content = self.below.read_json(folder / f"{part}.{number}") or {}
        died = self.died(name, part, number)
        # `died` only grows, over all leases of the part. What it grew by since the last holder is one death, or none;
        # `deaths` adds these up for as long as nothing gets done.
        deaths = (
            _count_in(last_content, "deaths") + died - _count_in(last_content, "died")
            if last_content.get("done", "") == done
            else 0
        )
        content = {"holder": self.member.id, "deaths": deaths, "died": died, "done": done}
        # The one step that decides: of several processes that try, the file system lets one make the file.
        if not self.below.make(file, json.dumps(content).encode()):
            return None
        # Two processes that listed at different times may make different numbers: only the highest holds the part.
        if self.parts(name).get(part) != number + 1:  # what was listed first was out of date
            self.below.remove(file)
            return None
        with suppress(OSError):
            # The highest number is never removed: it tells a holder that was taken for dead that it lost the part.
            for older in range(number, 0, -1):
                if not self.below.remove(folder / f"{part}.{older}"):
                    break
        self.all_held[name, part] = lease = Lease(self, name, part, number + 1, content)
        return lease

    def held_leases(self, name: str) -> list[Lease]:
        """Return the leases of a name that this process holds."""
        return [lease for (lease_name, _), lease in self.all_held.items() if lease_name == name]

    def holder(self, name: str, part: str) -> str | None:
        """Return the id of the living process that holds a part, "unknown" if it cannot be read; None if it is free."""
        number = self.parts(name).get(part, 0)
        if not number:
            return None
        file = self.folder / name / f"{part}.{number}"
        content = self.below.read_json(file)
        if content is None or not isinstance(content.get("holder"), str):  # torn, or being written: only time can tell
            return "unknown" if self.members.is_changing(file) else None
        alive = not content.get("given_back") and self.members.is_alive(content["holder"])
        return str(content["holder"]) if alive else None

    def holders(self, name: str) -> dict[str, str]:
        """Return the living process that holds each part of a name, by part. Parts that nobody holds are left out."""
        holder_by_part = {part: self.holder(name, part) for part in self.parts(name)}
        return {part: holder for part, holder in holder_by_part.items() if holder is not None}

    def died(self, name: str, part: str, number: int) -> int:
        """Return how many processes ever died with a part, up to the lease of this number, whatever they had done."""
        last_content = self.below.read_json(self.folder / name / f"{part}.{number}")
        if last_content is None:  # none, or torn: nothing is known
            return 0
        return _count_in(last_content, "died") + (
            not last_content.get("given_back") and self.holder(name, part) is None
        )

    def parts(self, name: str) -> dict[str, int]:
        """Return the parts of a name that were ever taken, each with the number of its last lease."""
        last_numbers: dict[str, int] = {}
        with suppress(OSError):
            for file, _ in self.below.entries(self.folder / name):
                part, _, number = file.name.rpartition(".")
                if part and _NUMBER.fullmatch(number) and not part.startswith("."):
                    last_numbers[part] = max(last_numbers.get(part, 0), int(number))
        return last_numbers

    def clear(self, but: str) -> None:
        """Remove all leases except those of one name. No other process may be there. Raises OSError."""
        for folder, _ in self.below.entries(self.folder):
            if folder.name != but:
                self.below.remove_tree(folder)


def _count_in(content: dict[str, Any], name: str) -> int:
    number = content.get(name)
    return number if type(number) is int and 0 <= number < 10**6 else 0
