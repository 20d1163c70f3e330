"""Which jobs of a RUN this process may take, beside the other processes of its team (`rbench.executors.leases`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain

from rbench.spec import Job, Record
from rbench.storage.runs import Store
from rbench.storage.team import WHOLE, Team
from rbench.storage.weights import WeightCache

CHUNK = 64
"""Examples of an attack that a process takes at once. Another process may take the next ones."""
PAUSE = 1.0
"""Seconds between two looks at what others do."""

_Sign = tuple[int, int, int] | None


def chunks(examples: int) -> int:
    """Return the number of chunks of so many examples."""
    return -(-examples // CHUNK)


class TeamBoard:
    """The board of a team (`rbench.executors.leases.Board`).

    Args:
        jobs: the jobs that this process has to run. What the RUN has of them now, such as the record of a job that
            failed, does not count as the work of another process.
    """

    def __init__(self, team: Team, store: Store, cache: WeightCache, jobs: Sequence[Job]) -> None:
        self._team, self._store, self._cache = team, store, cache
        self._before = {job.key: self._sign(job) for job in jobs}
        self._nothing_left: dict[str, frozenset[tuple[str, int, str | None]]] = {}
        self._beside: dict[str, dict[str, str]] = {}
        """Who held which part of an attack when this process took it."""
        self._signs: dict[str, bytes | None] = {}
        """What each holder's file said when this process first had nothing to do beside it."""
        self._looked = False

    def ended(self, job: Job, needed: bool) -> Record | None:
        if job.trains:
            return self._made(job, needed)
        if self._sign(job) == self._before[job.key]:
            return None
        return self._store.look(job).record

    def _made(self, job: Job, needed: bool) -> Record | None:
        """Return the record of weights that another process made, if this one's cache has them or need not."""
        record = self._store.look(job).record
        if record is None or (record.status == "failed" and self._sign(job) == self._before[job.key]):
            return None
        at_hand = record.status == "failed" or not needed or self._cache.has(job.key)
        return record if at_hand else None

    def take(self, job: Job, *, shared: bool) -> AbstractContextManager[None] | None:
        if job.attacking is None:
            lease = None if shared else self._team.take(job, done=self._checkpoints(job))
            return None if lease is None or self._ended_meanwhile(job) else self._held(job)
        holders = self._team.holders(job)
        if bool(holders) != shared or WHOLE in holders or len(holders) >= chunks(job.attacking.num_examples):
            return None
        if holders and self._nothing_left.get(job.key) == self._team.state(job):
            return None
        self._beside[job.key] = holders
        return self._held(job)

    def busy(self, job: Job) -> bool:
        return bool(self._team.holders(job))

    def may_leave(self, jobs: Sequence[Job]) -> bool:
        holders = [{*self._team.holders(job).values()} for job in jobs]
        if not all(holders) and not self._looked:  # it ended, or its holder died, after the last look at it
            self._looked = True
            return False
        signs = {name: self._team.members.sign(name) for name in {*chain.from_iterable(holders)}}
        before, self._signs = self._signs, {**signs, **self._signs}
        return all(sign is None or (sign and sign != before.get(name, sign)) for name, sign in signs.items())

    def pause(self) -> None:
        time.sleep(PAUSE)

    def nothing_left(self, job: Job) -> None:
        """Note that others do all that is left of a job, so that it is not tried again until that changes.

        What one of them has given back meanwhile, done or not, is a change.
        """
        if self._beside.pop(job.key, {}).keys() <= self._team.holders(job).keys():
            self._nothing_left[job.key] = self._team.state(job)

    def _ended_meanwhile(self, job: Job) -> bool:
        """Whether a job ended between the look at its record and its lease. Then the lease is given back."""
        if self.ended(job, needed=True) is None:
            return False
        self._team.give_back(job)
        return True

    @contextmanager
    def _held(self, job: Job) -> Iterator[None]:
        self._signs, self._looked = {}, False
        try:
            yield
        finally:
            self._team.give_back(job)

    def _checkpoints(self, job: Job) -> str:
        """Return the names of the checkpoints of a training. They change when it gets further."""
        folder = self._cache.root / "checkpoints" / job.key
        return ",".join(sorted(path.name for path in folder.glob("checkpoint-*")))

    def _sign(self, job: Job) -> _Sign:
        """Return something that changes when a job's record is replaced; None if there is none."""
        with suppress(OSError):
            found = self._store.below(job).stat(self._store.folder(job) / "record.json")
            return found.st_ino, found.st_size, found.st_mtime_ns
        return None
