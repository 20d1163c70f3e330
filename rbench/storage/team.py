"""The processes that run the jobs of one RUN together. Each is an `rbench run` of its own; none commands the others.

    RUN/.processes/members/    who is here (`rbench.system.members`)
    RUN/.processes/leases/     who does what (`rbench.system.leases`)

A process that wants to run a suite in a folder joins. It may join others if all of them have the same plan. It then
takes jobs that no living process has. An attack is taken in chunks of its examples, so that several processes share it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

from rbench.errors import JobError, StoreError
from rbench.spec import Job, Plan, Stage
from rbench.storage.runs.files import UNFINISHED, as_store_error
from rbench.storage.runs.packed import opened
from rbench.storage.runs.reader import PROCESSES
from rbench.system.below import Below
from rbench.system.leases import Lease, Leases
from rbench.system.members import EXPIRY, Member, Members

logger = logging.getLogger("rbench")

WHOLE = "job"
"""The part of a job that is held to do all of it, or to merge its chunks and write its record."""
_JOINING = "joining"
_POLL = 0.1
NAMED = 16
"""Digits of a job's key in the name of its leases."""
FORGIVEN = 3
"""Processes that may die with a job, or with a chunk of an attack, one after the other. One more, and the job fails.
People and schedulers kill processes too, so a few deaths say nothing about a job."""


class Team:
    """This process among those that share the RUN in `root`.

    Every method raises StoreError if the folder cannot be written.
    """

    def __init__(self, root: Path, members: Members | None = None) -> None:
        self.root, self.folder = root, root / PROCESSES
        self.below = Below(root)
        self.members = members or Members(self.folder, below=self.below)
        self.member = Member(self.folder, {}, below=self.below)
        self._leases = Leases(self.folder, self.member, self.members, self.below)

    @contextmanager
    def joined(self, prepare: Callable[[list[dict[str, Any]]], Plan]) -> Iterator[None]:
        """Be in the team while the block lasts. Its end gives back all that this process holds.

        Args:
            prepare: called while no other process can join, with what those say of themselves that run jobs here.
                Returns the plan that this process runs. What it raises is raised again.
        """
        with ExitStack() as stack:
            with as_store_error(self.root):
                stack.enter_context(self.member.present())
                lease = self._turn()
            try:
                others = [one for one in self.members.living() if "plan" in one and one["id"] != self.member.id]
                if not others:
                    self._sweep()
                plan = prepare(others)
                with as_store_error(self.root):
                    self.member.about = {"plan": digest(plan)}
                    self.member.beat()
            finally:
                lease.give_back()
            try:
                yield
            finally:
                for lease in self._leases.all_held():
                    lease.give_back()
                self._tidy()

    def _turn(self) -> Lease:
        """Wait until no other process is joining."""
        while (lease := self._leases.take(_JOINING, WHOLE)) is None:
            time.sleep(_POLL)
        return lease

    def take(self, job: Job, part: str = WHOLE, done: str = "") -> Lease | None:
        """Take a job, or a chunk of it, of which `done` is done. None if a living process has it."""
        with as_store_error(self.folder):
            return self._leases.take(job.key[:NAMED], part, done)

    def died(self, job: Job) -> int:
        """Return how many processes died with one part of a job, at most, whatever they had done of it."""
        name = job.key[:NAMED]
        parts = self._leases.parts(name)
        return max((self._leases.died(name, part, number) for part, number in parts.items()), default=0)

    def check_deaths(self, job: Job, what: str = "this job") -> None:
        """Raise JobError if too many processes died with what this one holds of a job. To be called before any work.

        Args:
            what: what this process is about to do, for the message.
        """
        deaths = max((lease.deaths for lease in self._leases.held(job.key[:NAMED])), default=0)
        if deaths > FORGIVEN:
            raise JobError(
                f"{deaths} processes died while they worked on {what}, one after the other, and none got further. "
                "They may have run out of memory, crashed in native code, or reached a time limit. Give each process "
                "more memory or time, use fewer --workers or a smaller batch_size, and run the same command again."
            )

    def check(self, job: Job) -> None:
        """Raise LeaseLost if another process has taken over what this one holds of a job."""
        for lease in self._leases.held(job.key[:NAMED]):
            lease.check()

    def give_back(self, job: Job) -> None:
        """Give back all that this process holds of a job."""
        for lease in self._leases.held(job.key[:NAMED]):
            lease.give_back()

    def holders(self, job: Job) -> dict[str, str]:
        """Return the living process that holds each part of a job, by part. Parts that nobody holds are left out."""
        return holders(self._leases, job)

    def state(self, job: Job) -> frozenset[tuple[str, int, str | None]]:
        """Return something that changes when a part of a job is taken, given back, or lost by a process that died."""
        name = job.key[:NAMED]
        parts = self._leases.parts(name)
        return frozenset((part, number, self._leases.holder(name, part)) for part, number in parts.items())

    def _tidy(self) -> None:
        """Remove all leases, if no other process is there. Whoever was stopped for long and goes on finds none."""
        with suppress(OSError):
            lease = self._leases.take(_JOINING, WHOLE)
            if lease is not None:
                if len(self.members.living()) == 1:
                    self._leases.clear(but=_JOINING)
                lease.give_back()

    def others(self) -> list[dict[str, Any]]:
        """Return what those say of themselves that surely run jobs here. May wait as `Members.surely_living` does.

        To be called while no other process can join. What dead ones left is removed if there are no others.
        """
        living = surely_living(self.root, self.members)
        others = [one for one in living if "plan" in one and one["id"] != self.member.id]
        if not others:
            self._sweep()
        return others

    def _sweep(self) -> None:
        """Remove what processes left that are dead. Called while no other process is there, or can come.

        A RUN may lie in a folder with other things. These are left alone.
        """
        with as_store_error(self.root):
            self.members.sweep()
            own = (PROCESSES, *get_args(Stage), "tables", "figures")
            entries = self.below.entries(self.root)
            folders = [path for path, kind in entries if kind == "folder" and path.name in own]
            files = [path for path, kind in entries if kind == "file"]
            for file in [*files, *(file for folder in folders for file in self.below.files(folder))]:
                if UNFINISHED.search(file.name):
                    self.below.remove(file)


def digest(plan: Plan) -> str:
    """Return what tells plans apart: 16 hex digits."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()[:16]


def holders(leases: Leases, job: Job) -> dict[str, str]:
    """Return the living process that holds each part of a job, by part."""
    name = job.key[:NAMED]
    found = {part: leases.holder(name, part) for part in leases.parts(name)}
    return {part: holder for part, holder in found.items() if holder is not None}


def observed(root: Path) -> tuple[Members, Callable[[Job], dict[str, str]]]:
    """Return who works in a RUN, and a function that returns who holds which part of a job. Writes nothing."""
    folder, below = root / PROCESSES, opened(root)
    members = Members(folder, below=below)
    leases = Leases(folder, Member(folder, {}, below=below), members, below)
    return members, lambda job: holders(leases, job)


def check_still(root: Path) -> None:
    """Raise StoreError if a process runs in a RUN. Writes nothing. May wait as `Members.surely_living` does."""
    if root.is_file():  # packed
        return
    if living := surely_living(root, Members(root / PROCESSES, below=Below(root))):
        raise StoreError(f"{root} is in use by {who(living)}. Wait until that run has ended.")


def surely_living(root: Path, members: Members) -> list[dict[str, Any]]:
    """Return the living members, as `Members.surely_living` does, and tell the user if that takes long."""
    return members.surely_living(
        lambda silent: logger.warning(
            "%s: waiting for a sign of life of %s, which died if there is none in %.0f s", root, who(silent), EXPIRY
        )
    )


def who(living: list[dict[str, Any]]) -> str:
    """Name processes in a message: the oldest, and how many more there are."""
    first = living[0]
    known = {"pid", "host", "since"} <= first.keys()
    named = f"process {first['pid']} on {first['host']} since {first['since']}" if known else "another process"
    return f"{named} and {len(living) - 1} more" if len(living) > 1 else named
