"""Run jobs beside any number of other processes that run the same jobs: each takes what no other one has."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from rbench.execution.cluster.scheduler import TeamBoard
from rbench.schema import Job, Record


def run(
    jobs: Sequence[Job], board: TeamBoard, call: Callable[[Job], Record | None]
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
        ended = _settled(left, failed, board) or _run_one(left, board, call)
        for job, record in ended or ():
            del left[job.key]
            if record is None or record.status == "failed":
                failed.add(job.key)
            yield job, record
        if ended is None:
            if not any(_waits(job, left) for job in left.values()) and board.may_leave([*left.values()]):
                return
            board.pause()


def _settled(left: dict[str, Job], failed: set[str], board: TeamBoard) -> list[tuple[Job, Record | None]]:
    """Return the jobs that need not run here: others ran them, or something that they need failed."""
    found: list[tuple[Job, Record | None]] = []
    needed = {key for job in left.values() for key in job.needs.values()}
    gone = set(failed)
    for job in left.values():
        if gone.intersection(job.needs.values()):
            gone.add(job.key)
            found.append((job, None))
        elif not _waits(job, left) and (record := board.ended(job, job.key in needed)) is not None:
            found.append((job, record))
    return found


def _waits(job: Job, left: Container[str]) -> bool:
    """Whether a job needs one that has not ended."""
    return any(key in left for key in job.needs.values())


def _in_order(ready: Sequence[Job], board: TeamBoard) -> Iterator[Job]:
    """Yield the jobs in their order, but last the attacks on victims that other processes attack.

    A process keeps what a victim answered, for its other attacks. TextBugger asks most of what TextFooler asked.
    """
    attacks: dict[str, list[Job]] = {}
    for job in ready:
        if (victim := _victim(job)) is not None:
            attacks.setdefault(victim, []).append(job)
    attacked: dict[str, bool] = {}  # as far as looked at: each look lists a folder
    later: list[Job] = []
    for job in ready:
        victim = _victim(job)
        if victim is not None and victim not in attacked:
            attacked[victim] = any(board.busy(one) for one in attacks[victim])
        if victim is not None and attacked[victim]:
            later.append(job)
        else:
            yield job
    yield from later


def _victim(job: Job) -> str | None:
    return job.needs.get("victim") if job.attacking is not None else None


def _run_one(
    left: dict[str, Job], board: TeamBoard, call: Callable[[Job], Record | None]
) -> list[tuple[Job, Record | None]] | None:
    """Take one job and run it. Returns it if it ended, nothing if only a part of it did; None if none can be taken."""
    ready = [job for job in left.values() if not _waits(job, left)]
    for shared in (False, True):
        for job in ready if shared else _in_order(ready, board):
            taken = board.take(job, shared=shared)
            if taken is None:
                continue
            with taken:
                record = call(job)
            return [] if record is None else [(job, record)]
    return None
