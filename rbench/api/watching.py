"""Say how far a RUN is, and which processes work on it: `rbench status`. Reads the folder and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json

from rbench.errors import StoreError
from rbench.execution.cluster.scheduler import observe_run
from rbench.schema import Job, Stage
from rbench.store.job_status import find_leftovers
from rbench.store.runs import RunStore, read_columns
from rbench.store.runs.store import folder_path
from rbench.system.below import SMALL_BYTES
from rbench.tables.results import load_plan

State = Literal["done", "failed", "under way", "to do"]
_MEASURED = 3
"""Complete jobs of a kind that are read to learn how long one takes."""


@dataclass(frozen=True)
class WorkingProcess:
    """A process that works on a RUN, as it says itself."""

    host: str
    pid: int
    since: str
    """When it joined: date and time with the zone of its machine."""
    workers: int
    job: str | None
    """What it does; None between two jobs."""
    job_since: str | None
    done: int
    total: int
    """Steps of its job, such as examples; 0 where they are not known yet."""


@dataclass(frozen=True)
class FailedJob:
    """A job that failed."""

    name: str
    error: str
    """The last line of its error."""
    waiting: tuple[str, ...]
    """Names of the jobs that are not run while it has failed, because they need what it makes."""


@dataclass(frozen=True)
class Status:
    """How far a RUN is."""

    run: Path
    processes: tuple[WorkingProcess, ...]
    jobs: Mapping[Stage, Mapping[State, int]]
    """The number of jobs in each state, for each stage that the plan has, in its order."""
    hours: float
    """Estimate of the hours that are left for the processes that work now, or for one if none does."""
    unmeasured: int
    """Jobs that `hours` leaves out, because no job of their kind has ended."""
    failures: tuple[FailedJob, ...] = ()
    strangers: int = 0
    """Folders of jobs that are not in the plan. An earlier suite, or an earlier version of it, left them."""

    @property
    def complete(self) -> bool:
        """Whether every job is done."""
        return all(n == 0 or state == "done" for counts in self.jobs.values() for state, n in counts.items())


class Watcher:
    """Looks at a RUN once or again and again. It sees that a process of another machine is dead only by waiting.

    Raises StoreError if `run` is no RUN.
    """

    def __init__(self, run: Path | str) -> None:
        self._store = RunStore(folder_path(run))
        self._plan = load_plan(self._store)
        self._observed = observe_run(self._store.root)
        self._speeds: dict[tuple[str, ...], tuple[float, int]] = {}

    def look(self) -> Status:
        """Return how far the RUN is now."""
        members, holders = self._observed
        processes = tuple(_parse_process(member) for member in members.living() if "plan" in member)
        states: dict[str, State] = {}
        for job in self._plan.jobs:
            ended = self._ended(job)
            # A job that failed may be tried again. A holder that wrote its record holds it for a moment more.
            under_way = ended != "done" and holders(job)
            states[job.key] = "under way" if under_way else ended or "to do"
        counts: dict[Stage, dict[State, int]] = {}
        for job in self._plan.jobs:
            of_stage = counts.setdefault(job.stage, {"done": 0, "failed": 0, "under way": 0, "to do": 0})
            of_stage[states[job.key]] += 1
        seconds, unmeasured = self._left(states, processes)
        return Status(
            self._store.root,
            processes,
            counts,
            seconds / 3600,
            unmeasured,
            self._failures(states),
            len(find_leftovers(self._store, self._plan)),
        )

    def _failures(self, states: Mapping[str, State]) -> tuple[FailedJob, ...]:
        failures = []
        for failed in (job for job in self._plan.jobs if states[job.key] == "failed"):
            after = {failed.key}
            waiting = []
            for job in self._plan.jobs:  # each comes after the jobs that it needs
                if states[job.key] != "done" and after.intersection(job.needs.values()):
                    after.add(job.key)
                    waiting.append(job.name)
            lines = str((self._fields(failed) or {}).get("error") or "").strip().splitlines()
            failures.append(FailedJob(failed.name, lines[-1] if lines else "no error was recorded", tuple(waiting)))
        return tuple(failures)

    def _ended(self, job: Job) -> Literal["done", "failed"] | None:
        fields = self._fields(job)
        if fields is None:
            return None
        return "done" if fields.get("status") == "complete" else "failed"

    def _fields(self, job: Job) -> dict[str, Any] | None:
        """Read a record without checking it: `rbench verify` does."""
        with suppress(OSError, ValueError):
            file = self._store.folder(job) / "record.json"
            fields = from_json(self._store.below(job).read(file, SMALL_BYTES))
            if isinstance(fields, dict) and isinstance(fields.get("job"), dict) and fields["job"].get("key") == job.key:
                return fields
        return None

    def _left(self, states: Mapping[str, State], processes: tuple[WorkingProcess, ...]) -> tuple[float, int]:
        """Return the seconds that are left, and the number of jobs about which nothing is known."""
        self._measure(job for job in self._plan.jobs if states[job.key] == "done")
        num_processes, workers = max(1, len(processes)), max(1, sum(process.workers for process in processes))
        seconds, unmeasured = 0.0, 0
        for job in self._plan.jobs:
            if states[job.key] in ("done", "failed"):
                continue
            spent, units = next((self._speeds[kind] for kind in _job_kinds(job) if kind in self._speeds), (0.0, 0))
            if not units:
                unmeasured += 1
            elif job.attacking is not None:
                seconds += spent / units * max(0, job.attacking.num_examples - self._count_attacked(job)) / workers
            else:
                seconds += spent / units / num_processes
        return seconds, unmeasured

    def _measure(self, done: Iterable[Job]) -> None:
        """Learn from complete jobs how many seconds one takes, or one example of an attack in one process."""
        for job in done:
            for kind in _job_kinds(job):
                spent, units = self._speeds.get(kind, (0.0, 0))
                enough = 64 * _MEASURED if job.attacking is not None else _MEASURED
                if units < enough:
                    more, n = self._seconds_and_units(job)
                    self._speeds[kind] = spent + more, units + n

    def _seconds_and_units(self, job: Job) -> tuple[float, int]:
        if job.attacking is None:
            source = (self._fields(job) or {}).get("provenance")
            seconds = source.get("seconds") if isinstance(source, dict) else None
            sound = isinstance(seconds, int | float) and 0 <= seconds < float("inf")
            return (float(seconds), 1) if sound and seconds is not None else (0.0, 0)
        with suppress(StoreError):
            record = self._store.look(job).record
            if record is not None:
                times = [float(row[0]) for row in read_columns(self._store, job, record, ["seconds"])]
                return sum(times), len(times)
        return 0.0, 0

    def _count_attacked(self, job: Job) -> int:
        return len({outcome.example_id for outcome in self._store.outcomes(job)})


def status(run: Path | str) -> Status:
    """Say how far a RUN is: who does what, what is done and to do, and about how many hours are left.

    Raises StoreError if `run` is no RUN.
    """
    return Watcher(run).look()


def _job_kinds(job: Job) -> tuple[tuple[str, ...], ...]:
    """Return the kinds of a job, the narrowest first: jobs of one kind take about as long."""
    stage = job.what or str(job.stage)
    if job.attacking is not None:
        return (stage, job.attacking.task.name, job.parts[-1]), (stage, "", job.parts[-1])
    return ((stage, *job.parts[1:]), (stage,)) if len(job.parts) > 1 else ((stage,),)


def _parse_process(member: Mapping[str, Any]) -> WorkingProcess:
    doing = member["doing"]
    return WorkingProcess(
        host=member.get("host", "?"),
        pid=member.get("pid", 0),
        since=member.get("since", "?"),
        workers=member.get("workers") or 1,
        job=doing.get("job"),
        job_since=doing.get("since"),
        done=doing.get("done", 0),
        total=doing.get("total", 0),
    )
