"""The processes that run the jobs of one RUN together. Each is an `rbench run` of its own; none commands the others.

    RUN/.processes/members/    who is here (`rbench.execution.cluster.membership`)
    RUN/.processes/leases/     who does what (`rbench.execution.cluster.membership`)

A process that wants to run a suite in a folder joins. It may join others if all of them have the same plan. It then
takes jobs that no living process has (`schedule_jobs`). An attack is taken in chunks of its examples, so that several
processes share it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from rbench.errors import JobError, StoreError
from rbench.execution.cluster.membership import EXPIRY_SECONDS, Lease, Leases, Member, Members
from rbench.schema import Job, Plan, Record, Stage
from rbench.store.runs import RunStore
from rbench.store.runs.files import UNFINISHED, as_store_error
from rbench.store.runs.packed import open_run
from rbench.store.runs.reader import PROCESSES
from rbench.store.weights import WeightCache
from rbench.system.below import SafeFolder

logger = logging.getLogger("rbench")

WHOLE_JOB = "job"
"""The part of a job that is held to do all of it, or to merge its chunks and write its record."""
_JOINING = "joining"
_POLL = 0.1
KEY_DIGITS = 16
"""Digits of a job's key in the name of its leases."""
MAX_DEATHS = 3
"""Processes that may die with a job, or with a chunk of an attack, one after the other. One more, and the job fails.
People and schedulers kill processes too, so a few deaths say nothing about a job."""
CHUNK = 64
"""Examples of an attack that a process takes at once. Another process may take the next ones."""
PAUSE = 1.0
"""Seconds between two looks at what others do."""

_Sign = tuple[int, int, int] | None


class WorkerGroup:
    """This process among those that share the RUN in `root`.

    Every method raises StoreError if the folder cannot be written.
    """

    def __init__(self, root: Path, members: Members | None = None) -> None:
        self.root, self.folder = root, root / PROCESSES
        self.below = SafeFolder(root)
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
                while (lease := self._leases.take(_JOINING, WHOLE_JOB)) is None:  # another process is joining
                    time.sleep(_POLL)
            try:
                plan = prepare(self._others_among(self.members.living()))
                with as_store_error(self.root):
                    self.member.about = {"plan": plan_digest(plan)}
                    self.member.write_heartbeat()
            finally:
                lease.give_back()
            try:
                yield
            finally:
                # Leases go back before the heartbeat ends: others would otherwise count a death for each of them.
                for lease in [*self._leases.all_held.values()]:
                    lease.give_back()
                with suppress(OSError):
                    last = self._leases.take(_JOINING, WHOLE_JOB)
                    if last is not None:
                        # Without others all leases go. Whoever was stopped for long and goes on finds none.
                        if len(self.members.living()) == 1:
                            self._leases.clear(but=_JOINING)
                        last.give_back()

    def take(self, job: Job, part: str = WHOLE_JOB, done: str = "") -> Lease | None:
        """Take a job, or a chunk of it, of which `done` is done. None if a living process has it."""
        with as_store_error(self.folder):
            return self._leases.take(job.key[:KEY_DIGITS], part, done)

    def died(self, job: Job) -> int:
        """Return how many processes died with one part of a job, at most, whatever they had done of it."""
        name = job.key[:KEY_DIGITS]
        parts = self._leases.parts(name)
        return max((self._leases.died(name, part, number) for part, number in parts.items()), default=0)

    def check_deaths(self, job: Job, what: str = "this job") -> None:
        """Raise JobError if too many processes died with what this one holds of a job. To be called before any work.

        Args:
            what: what this process is about to do, for the message.
        """
        deaths = max((lease.deaths for lease in self._leases.held_leases(job.key[:KEY_DIGITS])), default=0)
        if deaths > MAX_DEATHS:
            raise JobError(
                f"{deaths} processes died while they worked on {what}, one after the other, and none got further. "
                "They may have run out of memory, crashed in native code, or reached a time limit. Give each process "
                "more memory or time, use fewer --workers or a smaller batch_size, and run the same command again."
            )

    def check(self, job: Job) -> None:
        """Raise LeaseLost if another process has taken over what this one holds of a job."""
        for lease in self._leases.held_leases(job.key[:KEY_DIGITS]):
            lease.check()

    def give_back(self, job: Job) -> None:
        """Give back all that this process holds of a job."""
        for lease in self._leases.held_leases(job.key[:KEY_DIGITS]):
            lease.give_back()

    def holders(self, job: Job) -> dict[str, str]:
        """Return the living process that holds each part of a job, by part. Parts that nobody holds are left out."""
        return self._leases.holders(job.key[:KEY_DIGITS])

    def state(self, job: Job) -> frozenset[tuple[str, int, str | None]]:
        """Return something that changes when a part of a job is taken, given back, or lost by a process that died."""
        name = job.key[:KEY_DIGITS]
        parts = self._leases.parts(name)
        return frozenset((part, number, self._leases.holder(name, part)) for part, number in parts.items())

    def others(self) -> list[dict[str, Any]]:
        """Return what those say of themselves that surely run jobs here. May wait as `Members.surely_living` does.

        To be called while no other process can join. What dead ones left is removed if there are no others.
        """
        return self._others_among(surely_living(self.root, self.members))

    def _others_among(self, living: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return those of the living that run jobs. Without any, what dead ones left is removed: none can come now.

        A RUN may lie in a folder with other things. These are left alone.
        """
        others = [member for member in living if "plan" in member and member["id"] != self.member.id]
        if others:
            return others
        with as_store_error(self.root):
            self.members.sweep()
            own_folders = (PROCESSES, *get_args(Stage), "tables", "figures")
            entries = self.below.entries(self.root)
            folders = [path for path, kind in entries if kind == "folder" and path.name in own_folders]
            files = [path for path, kind in entries if kind == "file"]
            for file in [*files, *(file for folder in folders for file in self.below.files(folder))]:
                # A process says that it is there before it waits to join, so its first heartbeat may be half written.
                if UNFINISHED.search(file.name) and file.parent != self.members.folder:
                    self.below.remove(file)
        return []


def count_chunks(examples: int) -> int:
    """Return the number of chunks of so many examples."""
    return -(-examples // CHUNK)


class JobBoard:
    """Says what the other processes of a team do, and lets this one take jobs.

    Args:
        jobs: the jobs that this process has to run. What the RUN has of them now, such as the record of a job that
            failed, does not count as the work of another process.
    """

    def __init__(self, team: WorkerGroup, store: RunStore, cache: WeightCache, jobs: Sequence[Job]) -> None:
        self._team, self._store, self._cache = team, store, cache
        self._before = {job.key: self._record_sign(job) for job in jobs}
        self._nothing_left: dict[str, frozenset[tuple[str, int, str | None]]] = {}
        self._beside: dict[str, dict[str, str]] = {}
        """Who held which part of an attack when this process took it."""
        self._signs: dict[str, bytes | None] = {}
        """What each holder's file said when this process first had nothing to do beside it."""
        self._looked = False

    def ended(self, job: Job, needed: bool) -> Record | None:
        """Return the record that another process wrote for a job while this one runs; None if there is none.

        `needed` says whether a job that is left needs what this one makes.
        """
        if job.trains:
            return self._made_elsewhere(job, needed)
        if self._record_sign(job) == self._before[job.key]:
            return None
        return self._store.look(job).record

    def _made_elsewhere(self, job: Job, needed: bool) -> Record | None:
        """Return the record of weights that another process made, if this one's cache has them or need not."""
        record = self._store.look(job).record
        if record is None or (record.status == "failed" and self._record_sign(job) == self._before[job.key]):
            return None
        at_hand = record.status == "failed" or not needed or self._cache.has(job.key)
        return record if at_hand else None

    def take(self, job: Job, *, shared: bool) -> AbstractContextManager[None] | None:
        """Take a job while the block lasts; None if a living process has it.

        With `shared`, take a job that others work on, if a part of it is left.
        """
        if job.attacking is None:
            if shared or self._team.take(job, done=self._checkpoints(job)) is None:
                return None
            # Looked at again under the lease: before it, another process may have written the record and left.
            if self.ended(job, needed=True) is None:
                return self._held(job)
            self._team.give_back(job)  # it ended between the look at its record and its lease
            return None
        holders = self._team.holders(job)
        if bool(holders) != shared or WHOLE_JOB in holders or len(holders) >= count_chunks(job.attacking.num_examples):
            return None
        if holders and self._nothing_left.get(job.key) == self._team.state(job):
            return None
        # No lease on the attack itself: its chunks are leased one by one (`OutcomeWriter.examples`).
        self._beside[job.key] = holders
        return self._held(job)

    def busy(self, job: Job) -> bool:
        """Whether other processes do a job, or a part of it."""
        return bool(self._team.holders(job))

    def may_leave(self, jobs: Sequence[Job]) -> bool:
        """Whether all who do these jobs have shown that they live since this process first had nothing else to do."""
        holders = [{*self._team.holders(job).values()} for job in jobs]
        if not all(holders) and not self._looked:  # it ended, or its holder died, after the last look at it
            self._looked = True
            return False
        signs = {name: self._team.members.sign(name) for name in {*chain.from_iterable(holders)}}
        signs_before, self._signs = self._signs, {**signs, **self._signs}
        return all(sign is None or (sign and sign != signs_before.get(name, sign)) for name, sign in signs.items())

    def pause(self) -> None:
        """Wait a little, because all that this process could do needs what others are doing."""
        time.sleep(PAUSE)

    def nothing_left(self, job: Job) -> None:
        """Note that others do all that is left of a job, so that it is not tried again until that changes.

        What one of them has given back meanwhile, done or not, is a change.
        """
        if self._beside.pop(job.key, {}).keys() <= self._team.holders(job).keys():
            self._nothing_left[job.key] = self._team.state(job)

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

    def _record_sign(self, job: Job) -> _Sign:
        """Return something that changes when a job's record is replaced; None if there is none."""
        with suppress(OSError):
            status = self._store.below(job).stat(self._store.folder(job) / "record.json")
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None


def plan_digest(plan: Plan) -> str:
    """Return what tells plans apart: 16 hex digits."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()[:16]


def observe_run(root: Path) -> tuple[Members, Callable[[Job], dict[str, str]]]:
    """Return who works in a RUN, and a function that returns who holds which part of a job. Writes nothing."""
    folder, below = root / PROCESSES, open_run(root)
    members = Members(folder, below=below)
    leases = Leases(folder, Member(folder, {}, below=below), members, below)
    return members, lambda job: leases.holders(job.key[:KEY_DIGITS])


def check_unused(root: Path) -> None:
    """Raise StoreError if a process runs in a RUN. Writes nothing. May wait as `Members.surely_living` does."""
    if root.is_file():  # packed
        return
    if living := surely_living(root, Members(root / PROCESSES, below=SafeFolder(root))):
        raise StoreError(f"{root} is in use by {name_processes(living)}. Wait until that run has ended.")


def surely_living(root: Path, members: Members) -> list[dict[str, Any]]:
    """Return the living members, as `Members.surely_living` does, and tell the user if that takes long."""
    return members.surely_living(
        lambda silent: logger.warning(
            "%s: waiting for a sign of life of %s, which died if there is none in %.0f s",
            root,
            name_processes(silent),
            EXPIRY_SECONDS,
        )
    )


def name_processes(living: list[dict[str, Any]]) -> str:
    """Name processes in a message: the oldest, and how many more there are."""
    first = living[0]
    known = {"pid", "host", "since"} <= first.keys()
    named = f"process {first['pid']} on {first['host']} since {first['since']}" if known else "another process"
    return f"{named} and {len(living) - 1} more" if len(living) > 1 else named


def schedule_jobs(
    jobs: Sequence[Job], board: JobBoard, call: Callable[[Job], Record | None]
) -> Iterator[tuple[Job, Record | None]]:
    """Yield each job that ends with its record, whichever process ran it, until nothing is left for this process.

    The first job is taken that no process works on; if there is none, a part of one that others work on. An attack on a
    victim that others attack comes after all that is left beside it, because they have many of its answers. While other
    processes make what this one needs next, it waits. What is left at the end, others are doing. It is not yielded.
    Before it leaves that to them it waits for a sign of life of each, or until it can take over what a dead one did.
    A job is not run if a job that it needs failed or was not run. Its record is None.

    Args:
        jobs: jobs in an order in which each comes after all jobs that it needs.
        call: runs a job, or what is left of it. It turns errors into failed records. It returns None if others still
            do parts of the job. An exception that it raises ends the run.
    """
    left = {job.key: job for job in jobs}
    failed: set[str] = set()
    while left:
        ended = _ended_elsewhere(left, failed, board) or _run_one(left, board, call)
        for job, record in ended or ():
            del left[job.key]
            if record is None or record.status == "failed":
                failed.add(job.key)
            yield job, record
        if ended is None:
            if not any(_needs_unfinished(job, left) for job in left.values()) and board.may_leave([*left.values()]):
                return
            board.pause()


def _ended_elsewhere(left: dict[str, Job], failed: set[str], board: JobBoard) -> list[tuple[Job, Record | None]]:
    """Return the jobs that need not run here: others ran them, or something that they need failed."""
    ended: list[tuple[Job, Record | None]] = []
    needed = {key for job in left.values() for key in job.needs.values()}
    failed_or_skipped = set(failed)
    for job in left.values():
        if failed_or_skipped.intersection(job.needs.values()):
            # Jobs come after those that they need, so one pass finds everything that a failure rules out.
            failed_or_skipped.add(job.key)
            ended.append((job, None))
        elif not _needs_unfinished(job, left) and (record := board.ended(job, job.key in needed)) is not None:
            ended.append((job, record))
    return ended


def _needs_unfinished(job: Job, left: Container[str]) -> bool:
    """Whether a job needs one that has not ended."""
    return any(key in left for key in job.needs.values())


def _order_ready(ready: Sequence[Job], board: JobBoard) -> Iterator[Job]:
    """Yield the jobs in their order, but last the attacks on victims that other processes attack.

    A process keeps what a victim answered, for its other attacks. TextBugger asks most of what TextFooler asked.
    """
    attacks: dict[str, list[Job]] = {}
    for job in ready:
        if (victim := _attacked_victim(job)) is not None:
            attacks.setdefault(victim, []).append(job)
    attacked: dict[str, bool] = {}  # as far as looked at: each look lists a folder
    later: list[Job] = []
    for job in ready:
        victim = _attacked_victim(job)
        if victim is not None and victim not in attacked:
            attacked[victim] = any(board.busy(attack) for attack in attacks[victim])
        if victim is not None and attacked[victim]:
            later.append(job)
        else:
            yield job
    yield from later


def _attacked_victim(job: Job) -> str | None:
    return job.needs.get("victim") if job.attacking is not None else None


def _run_one(
    left: dict[str, Job], board: JobBoard, call: Callable[[Job], Record | None]
) -> list[tuple[Job, Record | None]] | None:
    """Take one job and run it. Returns it if it ended, nothing if only a part of it did; None if none can be taken."""
    ready = [job for job in left.values() if not _needs_unfinished(job, left)]
    # Jobs of its own first, and only without any a share of an attack that others run.
    for shared in (False, True):
        for job in ready if shared else _order_ready(ready, board):
            taken = board.take(job, shared=shared)
            if taken is None:
                continue
            with taken:
                record = call(job)
            return [] if record is None else [(job, record)]
    return None
