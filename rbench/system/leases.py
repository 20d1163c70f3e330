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

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbench.errors import LeaseLost
from rbench.system.below import Below
from rbench.system.members import Member, Members, read_json

_NUMBER = re.compile(r"[1-9][0-9]{0,9}")


class Lease:
    """A part that this process holds. Made by `Leases.take`.

    Attributes:
        deaths: how many processes died with this part, one after the other, since one of them got further with it.
    """

    def __init__(
        self,
        below: Below,
        file: Path,
        number: int,
        member: Member,
        surely: float,
        given_back: Callable[[], None],
        said: dict[str, Any],
    ) -> None:
        self._below = below
        self.file, self.number, self.deaths = file, number, int(said["deaths"])
        self._member, self._surely, self._given_back, self._said = member, surely, given_back, said

    def check(self) -> None:
        """Raise LeaseLost if another process has taken over. To be called before anything is written.

        Looks at the folder only if this process was silent for so long that others might think that it is dead.
        """
        if (
            self._member.silent > self._surely
            and _highest(self._below, self.file.parent, self.file.stem) != self.number
        ):
            raise LeaseLost(
                f"another process took over what this one did, because this one gave no sign of life for "
                f"{self._member.silent:.0f} s ({self.file}). What it had written is kept. Run the same command again "
                "to go on."
            )

    def give_back(self, **said: Any) -> None:
        """End the lease. `said` is what the next holder may read."""
        self._given_back()
        with suppress(OSError):  # then it expires
            self._below.replace(self.file, json.dumps({**self._said, "given_back": True, **said}).encode())


class Leases:
    """The leases in `folder`, as this process sees and takes them.

    Args:
        below: the folder below which no link is followed; None: `folder`.
    """

    def __init__(self, folder: Path, member: Member, members: Members, below: Below | None = None) -> None:
        self.folder, self._member, self._members = folder / "leases", member, members
        self._below = below or Below(folder)
        self._held: dict[tuple[str, str], Lease] = {}

    def take(self, name: str, part: str, done: str = "") -> Lease | None:
        """Take a part; None if a living process holds it, this one included. Raises OSError if it cannot be written.

        Args:
            done: what is done of the part. Deaths are counted from 0 again where it differs from what it was for the
                last holder, because that one got further.
        """
        folder = self.folder / name
        number = _highest(self._below, folder, part)
        if number and self.holder(name, part) is not None:
            return None
        file = folder / f"{part}.{number + 1}"
        last = read_json(self._below, folder / f"{part}.{number}") or {}
        died = self.died(name, part, number)
        deaths = _number(last, "deaths") + died - _number(last, "died") if last.get("done", "") == done else 0
        said = {"holder": self._member.id, "deaths": deaths, "died": died, "done": done}
        if not self._below.make(file, json.dumps(said).encode()):
            return None
        if _highest(self._below, folder, part) != number + 1:  # what was listed first was out of date
            self._below.remove(file)
            return None
        with suppress(OSError):
            for older in range(number, 0, -1):
                if not self._below.remove(folder / f"{part}.{older}"):
                    break
        surely = self._members.expiry / 2
        lease = Lease(self._below, file, number + 1, self._member, surely, lambda: self._forget(name, part), said)
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
        number = _highest(self._below, folder, part)
        if not number:
            return None
        file = folder / f"{part}.{number}"
        said = read_json(self._below, file)
        if said is None or not isinstance(said.get("holder"), str):  # torn, or being written: only time can tell
            return "unknown" if self._members.changing(file) else None
        alive = not said.get("given_back") and self._members.alive(said["holder"])
        return str(said["holder"]) if alive else None

    def died(self, name: str, part: str, number: int) -> int:
        """Return how many processes ever died with a part, up to the lease of this number, whatever they had done."""
        last = read_json(self._below, self.folder / name / f"{part}.{number}")
        if last is None:  # none, or torn: nothing is known
            return 0
        return _number(last, "died") + (not last.get("given_back") and self.holder(name, part) is None)

    def parts(self, name: str) -> dict[str, int]:
        """Return the parts of a name that were ever taken, each with the number of its last lease."""
        return _listed(self._below, self.folder / name)

    def clear(self, but: str) -> None:
        """Remove all leases except those of one name. No other process may be there. Raises OSError."""
        for folder, _ in self._below.entries(self.folder):
            if folder.name != but:
                self._below.remove_tree(folder)


def _number(said: dict[str, Any], name: str) -> int:
    found = said.get(name)
    return found if type(found) is int and 0 <= found < 10**6 else 0


def _listed(below: Below, folder: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    with suppress(OSError):
        for file, _ in below.entries(folder):
            part, _, number = file.name.rpartition(".")
            if part and _NUMBER.fullmatch(number) and not part.startswith("."):
                found[part] = max(found.get(part, 0), int(number))
    return found


def _highest(below: Below, folder: Path, part: str) -> int:
    return _listed(below, folder).get(part, 0)
