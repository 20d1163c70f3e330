"""Write one RUN: its plan, its tables, and each job's record, outcomes, predictions and rows; or move it aside.

Several processes may work on one attack. Each appends outcomes to a file of its own (`PartialOutcomes`), until all are
there.

    RUN/attack/<key>/outcomes.<process>.jsonl    what one process has made of the job so far
    RUN/attack/<key>/outcomes.jsonl              all, in the order of the sample, at the end

No two processes write one file, so nothing that one does can damage what another wrote. What a killed process wrote
counts. An example that two processes attacked has two outcomes, of which one is kept.

Each line is written at once, and lines are synced to the disk in groups. A process that is killed loses no line. If the
machine fails, at most the last group is lost; its examples are attacked again. A sync for each line would cost 8% of
the time of an attack on a GPU, and more on network disks.

A folder that holds a RUN of another suite is refused before its plan is replaced (`check_same_suite`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from rbench.errors import PlanError, StoreError
from rbench.schema import Digest, Job, MeasuredRow, Outcome, Plan, Prediction, Record, Stage, Strict
from rbench.store.runs import files
from rbench.store.runs.files import make_digest, seal, write_line
from rbench.store.runs.packed import PackedFolder
from rbench.store.runs.reader import MADE_BY_RBENCH, OUTCOMES, OWN, PLAN, PREDICTIONS, PROCESSES, ROWS, RunReader
from rbench.system.below import SMALL_BYTES, SafeFolder

_SUITE_FILE = "suite"
"""The file of PROCESSES with the path of the suite's file, relative to the RUN, so that both may be moved together."""


def folder_path(value: str | os.PathLike[str]) -> Path:
    """Return what a call names as a folder or file."""
    return Path(value)


class RunStore(RunReader):
    """What a run has written to the folder `root`. The folder is created when something is written.

    Every method raises StoreError if something cannot be read or written.

    Args:
        texts: whether outcomes are written with their texts.
    """

    def __init__(self, root: Path, *, texts: bool = True) -> None:
        self.root, self.texts = Path(root), texts

    def write_plan(self, plan: Plan) -> None:
        """Write the plan. It decides what `records` returns and how tables are laid out."""
        self._write(self.root / "plan.json", seal(plan.model_dump_json(indent=1)))

    def note_suite(self, suite: Path | None) -> None:
        """Write down the file of the suite that runs here, if it has one, for `check_suite`."""
        if suite is not None:
            with suppress(OSError, ValueError):  # ValueError: on another drive. Then nothing is compared.
                place = os.path.relpath(suite.resolve(), self.root.resolve())
                SafeFolder(self.root).replace(self.root / PROCESSES / _SUITE_FILE, place.encode())

    def check_suite(self, suite: Path | None) -> None:
        """Raise StoreError if the RUN is of another file that is still there and has another content than this one.

        So another file of the same name is not run into the same folder.
        """
        with suppress(OSError, ValueError):
            stored_path = SafeFolder(self.root).read(self.root / PROCESSES / _SUITE_FILE, SMALL_BYTES).decode()
            other_suite = Path(os.path.normpath(self.root.resolve() / stored_path))
            if suite is None or other_suite == suite.resolve() or not other_suite.is_file():
                return
            # The RUN may be somebody else's, and name anything: a device, a giant file.
            content, own_content = (
                SafeFolder(file.parent).read(file, SMALL_BYTES) for file in (other_suite, suite.resolve())
            )
            if content != own_content:
                raise StoreError(
                    f"{self.root} holds the RUN of {other_suite}, and {suite} has the same name. Choose another folder "
                    "for this one: --out DIR; or --fresh, which sets the old results aside"
                )

    def write_table(self, name: str, text: str) -> Path:
        """Write a table under this file name. It replaces an older one, which stays if the writing fails."""
        path = self.root / "tables" / name
        self._write(path, text.rstrip("\n").encode() + b"\n")
        return path

    def write_record(self, record: Record) -> None:
        """Write a job's record. It replaces an older one of the same job, such as a failed one."""
        self.check_owner(record.job)
        stored_record = record if self.texts else record.without_texts()
        self._write(self.folder(record.job) / "record.json", seal(stored_record.model_dump_json(indent=1)))

    def write_outcomes(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """Replace all outcomes of a job, also those in the files of single processes; return the record's digest."""
        stored_outcomes = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        content = b"".join(write_line(job, outcome) + b"\n" for outcome in stored_outcomes)
        files.write(self.folder(job) / OUTCOMES, content, self.below(job))
        for path in self.part_files(job):
            # The files of single processes are removed last, because until now they held the results.
            if path.name != OUTCOMES:
                self.remove(job, path)
        return make_digest(
            content, len(stored_outcomes), texts=any(outcome.original is not None for outcome in stored_outcomes)
        )

    def write_predictions(self, job: Job, predictions: Sequence[Prediction]) -> Digest:
        """Write the victim's prediction for each text of a contrast set, replacing older ones of the same job.

        Returns the digest for the job's record.
        """
        return self._write_lines(job, PREDICTIONS, predictions)

    def write_rows(self, job: Job, rows: Sequence[MeasuredRow]) -> Digest:
        """Write the rows of a measure, replacing older ones of the same job. Returns the digest for its record."""
        return self._write_lines(job, ROWS, rows)

    def _write_lines(self, job: Job, name: str, lines: Sequence[Strict]) -> Digest:
        self.check_owner(job)
        written = [json.dumps({"job": job.key, **line.model_dump()}) + "\n" for line in lines]
        content = "".join(written).encode()
        files.write(self.folder(job) / name, content, self.below(job))
        return make_digest(content, len(written), texts=False)

    def _write(self, path: Path, content: bytes) -> None:
        files.write(path, content, self.opened())

    def remove(self, job: Job, path: Path) -> None:
        """Remove one of the job's files, if it is there."""
        with files.as_store_error(path):
            self.below(job).remove(path)

    def stage_files(self) -> Iterator[tuple[str, Path]]:
        """Yield the regular files in the folders of stages, each with its stage. Links are left out."""
        below = self.opened()
        for path, kind in below.entries(self.root):
            if kind == "folder" and path.name in get_args(Stage):
                for file in below.files(path):
                    yield path.name, file

    def foreign(self, folders: Iterable[Path]) -> Iterator[str]:
        """Say what in a RUN is neither a folder nor a regular file, with the remedy.

        A RUN may lie in a folder with other things. These are not looked at.

        Args:
            folders: the folders of its jobs.
        """
        below = self.opened()
        if isinstance(below, PackedFolder):
            return  # it has only files, of the jobs of its plan
        for path in (*(self.root / name for name in OWN), *folders):
            try:
                below.check(path)
            except StoreError as error:
                yield str(error)

    def set_aside(self) -> Path | None:
        """Move the RUN to `<run>.<timestamp>` beside it and return that; None if there is none.

        Where the RUN is a mount point, that folder is made inside it. Things that rbench did not write stay where they
        are, for a RUN may lie in a folder with others. No other process may run in the folder. Never deletes.

        Raises StoreError if the folder cannot be read or written.
        """
        with files.as_store_error(self.root):
            entries = SafeFolder(self.root).entries(self.root)
            # A folder build/ of a user's project has no results.
            files_of = ((stage, path.name) for stage, path in self.stage_files())
            stages_with_results = {
                stage
                for stage, name in files_of
                if name == "record.json" or (name.startswith("outcomes") and name.endswith(".jsonl"))
            }
        entry_names = {entry.path.name for entry in entries}
        run_names = [PLAN, *stages_with_results, *MADE_BY_RBENCH] if PLAN in entry_names or stages_with_results else []
        return self._moved([name for name in run_names if name in entry_names]) if run_names else None

    def _moved(self, names: list[str]) -> Path:
        name = f"{self.root.resolve().name}.{datetime.now():%Y%m%d-%H%M%S}"
        for place in (files.path_beside(self.root, name), self.root / name):
            aside = files.first_unused(place)
            with files.as_store_error(aside):
                aside.mkdir()
                try:
                    for name in names:
                        (self.root / name).rename(aside / name)
                    return aside
                except OSError as error:
                    if error.errno != errno.EXDEV or any(aside.iterdir()):
                        raise
                    aside.rmdir()  # the RUN is a mount point: nothing can be moved out of it
        raise AssertionError("a folder lies on one file system with what it holds")


LINES_A_SYNC = 32
"""Most lines that are not synced yet."""
DELAY = 0.25
"""Most seconds that a line waits for its sync."""


class PartialOutcomes:
    """The outcomes of one job, seen by the process `writer`, which appends to its own file.

    Every method raises StoreError if something cannot be read or written, or a line belongs to another job.

    Args:
        writer: the name of this process, different from those of all other processes.
        counts: whether an errored outcome that this process, another one that lives, or nobody known (None) wrote
            counts as done. If not, its example is attacked again.
    """

    def __init__(
        self,
        store: RunStore,
        job: Job,
        wanted: Collection[str],
        writer: str,
        counts: Callable[[str | None, Outcome], bool],
    ) -> None:
        self._store, self._job, self._writer, self._counts = store, job, writer, counts
        self._wanted = frozenset(wanted)
        self._appender = LineAppender(store.folder(job) / OUTCOMES.replace(".", f".{writer}."), store.below(job))
        self._sizes: dict[str, int] = {}
        self._own: set[str] = set()
        self.outcomes: dict[str, Outcome] = {}
        """The outcomes that are there, by example."""
        self.notes: list[str] = []
        """What is damaged in the files, and which examples errored and are attacked again."""

    def look(self) -> None:
        """Read what other processes have written since the last look."""
        sizes = {path.name: self._size(path) for path in self._store.part_files(self._job)}
        # Files only grow, and are removed at the end, so equal sizes mean that nothing new was written.
        sizes[self._appender.path.name] = 0  # what this process adds now is in `outcomes`
        if sizes == self._sizes:
            return
        self._sizes = sizes
        notes, errored = [], 0
        for read in self._store.reads(self._job):
            read.check_owner()
            notes += [f"{read.damage}: their examples are done again"] if read.damage else []
            for line in read.lines:
                if line.outcome is None or line.outcome.example_id not in self._wanted:
                    continue
                _, *file_writer, _ = read.path.name.split(".")  # the file of all has none
                if line.outcome.status == "errored" and not self._counts(next(iter(file_writer), None), line.outcome):
                    errored += line.outcome.example_id not in self.outcomes
                    continue
                self.outcomes.setdefault(line.outcome.example_id, line.outcome)
        notes += [f"{self._job.name}: {errored} of its examples errored and are attacked again"] if errored else []
        self.notes += [note for note in notes if note not in self.notes]

    def append(self, outcome: Outcome) -> None:
        """Append one outcome. It is in the file when this returns, and is synced to the disk soon after."""
        stored_outcome = outcome if self._store.texts else outcome.without_texts()
        self._appender.append(write_line(self._job, stored_outcome))
        self.outcomes[outcome.example_id] = stored_outcome
        self._own.add(outcome.example_id)

    def discard(self) -> None:
        """Remove the file of this process, with all that it has appended."""
        self.close()
        self._store.below(self._job).remove(self._appender.path)
        for example_id in self._own:
            self.outcomes.pop(example_id, None)
        self._own.clear()

    def close(self) -> None:
        """Sync and close the file of this process."""
        self._appender.close()

    def merge(self, ordered: Sequence[Outcome]) -> Digest:
        """Write the outcomes of all examples into one file, in this order, and remove the files of single processes.

        Returns the digest for the job's record.
        """
        self.close()
        return self._store.write_outcomes(self._job, ordered)

    def _size(self, path: Path) -> int:
        with suppress(FileNotFoundError):  # another process has merged the files
            return self._store.below(self._job).stat(path).st_size
        return 0


class LineAppender:
    """Appends to `path` in the folder `below`, which no other process writes. The file is made with the first line.

    All methods raise StoreError if the file cannot be written; `append` also for a sync that failed meanwhile.
    """

    def __init__(self, path: Path, below: SafeFolder) -> None:
        self.path, self._below = path, below
        self._handle: int | None = None
        self._waiting = 0
        self._failed: OSError | None = None
        self._lock = threading.Lock()
        self._first, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def append(self, line: bytes) -> None:
        """Add a line (without its newline). Readers see it when this returns. An incomplete last line is cut off."""
        with files.as_store_error(self.path):
            if self._failed is not None:
                raise self._failed
            if self._handle is None:
                self._open()
            self._write(line + b"\n")
            with self._lock:
                self._waiting += 1
                full = self._waiting >= LINES_A_SYNC
            # Readers see the line already. Only the sync is put off, to a full group or DELAY seconds.
            if full:
                self._sync()
            else:
                self._first.set()

    def close(self) -> None:
        """Sync what waits, and close the file."""
        self._closed.set()
        self._first.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._handle is not None:
            with files.as_store_error(self.path):
                try:
                    self._sync()
                finally:
                    os.close(self._handle)
                    self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        self._handle = self._below.append(self.path)
        files.cut_torn_line(self._handle)
        self._thread = threading.Thread(target=self._sync_later, name="rbench sync", daemon=True)
        self._thread.start()

    def _write(self, content: bytes) -> None:
        """Write all of a line. If a part of it is all that fits on the disk, take that part back."""
        assert self._handle is not None
        end = os.fstat(self._handle).st_size
        try:
            written = 0
            while written < len(content):
                written += os.write(self._handle, content[written:])
        except OSError:
            os.ftruncate(self._handle, end)
            raise

    def _sync(self) -> None:
        with self._lock:
            if self._waiting and self._handle is not None:
                os.fsync(self._handle)
                self._waiting = 0

    def _sync_later(self) -> None:
        while True:
            self._first.wait()
            self._first.clear()
            if self._closed.wait(DELAY):
                return
            try:
                self._sync()
            except OSError as error:
                self._failed = error
                return


_NAME_OF_SUITE = re.compile(rb'\{\s*"suite"\s*:\s*\{\s*"name"\s*:\s*"([^"\\]*)"')


def check_same_suite(run: Path, name: str) -> None:
    """Raise PlanError where the folder holds a RUN of another suite than the one of this name.

    Reads the first bytes of the plan, since the whole of one may be large. A damaged plan is replaced as ever.
    """
    try:
        match = _NAME_OF_SUITE.match(SafeFolder(run).read_start(run / "plan.json", 1000))
    except OSError:
        return
    if match is not None and (stored_name := match[1].decode("utf-8", "replace")) != name:
        raise PlanError(
            f"{run} holds a RUN of the suite {stored_name}, and this suite is {name}. Choose another --out; or "
            "--fresh, which sets the old results aside"
        )
