"""Leases: which process of a shared folder may do what. No lock of the file system is needed, and no coordinator.

    FOLDER/leases/<name>/<part>.<n>    the n-th lease of this part: its holder, whether it was given back, and deaths

Who makes the file of the highest number holds the part. A file is made in one step, and only if it is not there: of two
processes that try, one succeeds. A lease is taken over, by making the next number, once its holder gave it back or is
dead (`rbench.system.members`). The highest file is never removed, so a process that was stopped for long and goes on
sees that there is a higher one, and stops (`Lease.check`).

A lease counts how many of its holders died with it, one after the other, and got no further (`Lease.deaths`). So what
kills every process that takes it can be told from what a process happened to do when it was killed.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbench.errors import LeaseLost
from rbench.system.members import Member, Members, read_json, replace

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOTSUP}


class Lease:
    """A part that this process holds. Made by `Leases.take`.

    Attributes:
        deaths: how many processes died with this part, one after the other, since one of them got further with it.
    """

    def __init__(
        self,
        file: Path,
        number: int,
        member: Member,
        surely: float,
        given_back: Callable[[], None],
        said: dict[str, Any],
    ) -> None:
        self.file, self.number, self.deaths = file, number, int(said["deaths"])
        self._member, self._surely, self._given_back, self._said = member, surely, given_back, said

    def check(self) -> None:
        """Raise LeaseLost if another process has taken over. To be called before anything is written.

        Looks at the folder only if this process was silent for so long that others might think that it is dead.
        """
        if self._member.silent > self._surely and _highest(self.file.parent, self.file.stem) != self.number:
            raise LeaseLost(
                f"another process took over what this one did, because this one gave no sign of life for "
                f"{self._member.silent:.0f} s ({self.file}). What it had written is kept. Run the same command again "
                "to go on."
            )

    def give_back(self, **said: Any) -> None:
        """End the lease. `said` is what the next holder may read."""
        self._given_back()
        with suppress(OSError):  # then it expires
            replace(self.file, json.dumps({**self._said, "given_back": True, **said}).encode())


class Leases:
    """The leases in `folder`, as this process sees and takes them."""

    def __init__(self, folder: Path, member: Member, members: Members) -> None:
        self.folder, self._member, self._members = folder / "leases", member, members
        self._held: dict[tuple[str, str], Lease] = {}

    def take(self, name: str, part: str, done: str = "") -> Lease | None:
        """Take a part; None if a living process holds it, this one included. Raises OSError if it cannot be written.

        Args:
            done: what is done of the part. Deaths are counted from 0 again where it differs from what it was for the
                last holder, because that one got further.
        """
        folder = self.folder / name
        number = _highest(folder, part)
        if number and self.holder(name, part) is not None:
            return None
        file = folder / f"{part}.{number + 1}"
        last = read_json(folder / f"{part}.{number}") or {}
        died = self.died(name, part, number)
        deaths = _number(last, "deaths") + died - _number(last, "died") if last.get("done", "") == done else 0
        said = {"holder": self._member.id, "deaths": deaths, "died": died, "done": done}
        if not _make(file, json.dumps(said).encode()):
            return None
        if _highest(folder, part) != number + 1:  # what was listed first was out of date
            file.unlink(missing_ok=True)
            return None
        for older in range(number, 0, -1):
            try:
                (folder / f"{part}.{older}").unlink()
            except OSError:
                break
        surely = self._members.expiry / 2
        lease = Lease(file, number + 1, self._member, surely, lambda: self._forget(name, part), said)
        self._held[name, part] = lease
        return lease

    def _forget(self, name: str, part: str) -> None:
        self._held.pop((name, part), None)

    def held(self, name: str) -> list[Lease]:
        """Return the leases of a name that this process holds."""
        return [lease for (of, _), lease in self._held.items() if of == name]

    def all_held(self) -> list[Lease]:
        """Return all leases that this process holds."""
        return [*self._held.values()]

    def holder(self, name: str, part: str) -> str | None:
        """Return the id of the living process that holds a part, "unknown" if it cannot be read; None if it is free."""
        folder = self.folder / name
        number = _highest(folder, part)
        if not number:
            return None
        file = folder / f"{part}.{number}"
        said = read_json(file)
        if said is None or not isinstance(said.get("holder"), str):  # torn, or being written: only time can tell
            return "unknown" if self._members.changing(file) else None
        alive = not said.get("given_back") and self._members.alive(said["holder"])
        return str(said["holder"]) if alive else None

    def died(self, name: str, part: str, number: int) -> int:
        """Return how many processes ever died with a part, up to the lease of this number, whatever they had done."""
        last = read_json(self.folder / name / f"{part}.{number}")
        if last is None:  # none, or torn: nothing is known
            return 0
        return _number(last, "died") + (not last.get("given_back") and self.holder(name, part) is None)

    def parts(self, name: str) -> dict[str, int]:
        """Return the parts of a name that were ever taken, each with the number of its last lease."""
        return _listed(self.folder / name)

    def clear(self, but: str) -> None:
        """Remove all leases except those of one name. No other process may be there. Raises OSError."""
        for folder in [*self.folder.iterdir()]:
            if folder.name != but:
                shutil.rmtree(folder)


def _number(said: dict[str, Any], name: str) -> int:
    found = said.get(name)
    return found if isinstance(found, int) else 0


def _listed(folder: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    with suppress(OSError):
        for file in folder.iterdir():
            part, _, number = file.name.rpartition(".")
            if part and number.isdecimal() and not part.startswith("."):
                found[part] = max(found.get(part, 0), int(number))
    return found


def _highest(folder: Path, part: str) -> int:
    return _listed(folder).get(part, 0)


def _make(file: Path, content: bytes) -> bool:
    """Make a file with this content in one step. Returns False if it is there already. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{secrets.token_hex(6)}")
    try:
        temporary.write_bytes(content)
        try:
            os.link(temporary, file)
        except FileExistsError:
            return temporary.stat().st_nlink == 2  # NFS: the link was made, and the answer was lost
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _make_exclusively(file, content)
        return True
    finally:
        temporary.unlink(missing_ok=True)


def _make_exclusively(file: Path, content: bytes) -> bool:
    """Do the same where there are no hard links. For a moment readers see an empty file."""
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except FileExistsError:
        return False
    return True
