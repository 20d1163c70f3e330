"""The outcomes of an attack that several processes work on: each appends to a file of its own, until all are there.

    RUN/attack/<key>/outcomes.<process>.jsonl    what one process has made of the job so far
    RUN/attack/<key>/outcomes.jsonl              all, in the order of the sample, at the end

No two processes write one file, so nothing that one does can damage what another wrote. What a killed process wrote
counts. An example that two processes attacked has two outcomes, of which one is kept.

Each line is written at once, and lines are synced to the disk in groups. A process that is killed loses no line. If the
machine fails, at most the last group is lost; its examples are attacked again. A sync for each line would cost 8% of
the time of an attack on a GPU, and more on network disks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rbench.schema import Digest, Job, Outcome
from rbench.store.runs import files
from rbench.store.runs.files import write_line
from rbench.store.runs.reader import OUTCOMES
from rbench.store.runs.store import Store
from rbench.system.below import Below

GROUP = 32
"""Most lines that are not synced yet."""
DELAY = 0.25
"""Most seconds that a line waits for its sync."""


class Parts:
    """The outcomes of one job, seen by the process `writer`, which appends to its own file.

    Every method raises StoreError if something cannot be read or written, or a line belongs to another job.

    Args:
        writer: the name of this process, different from those of all other processes.
        counts: whether an errored outcome that this process, another one that lives, or nobody known (None) wrote
            counts as done. If not, its example is attacked again.
    """

    def __init__(
        self,
        store: Store,
        job: Job,
        wanted: Collection[str],
        writer: str,
        counts: Callable[[str | None, Outcome], bool],
    ) -> None:
        self._store, self._job, self._writer, self._counts = store, job, writer, counts
        self._wanted = frozenset(wanted)
        self._appender = Appender(store.folder(job) / OUTCOMES.replace(".", f".{writer}."), store.below(job))
        self._sizes: dict[str, int] = {}
        self.outcomes: dict[str, Outcome] = {}
        """The outcomes that are there, by example."""
        self.notes: list[str] = []
        """What is damaged in the files, and which examples errored and are attacked again."""

    def look(self) -> None:
        """Read what other processes have written since the last look."""
        sizes = {path.name: self._size(path) for path in self._store.part_files(self._job)}
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
                _, *writer, _ = read.path.name.split(".")  # the file of all has none
                if line.outcome.status == "errored" and not self._counts(next(iter(writer), None), line.outcome):
                    errored += line.outcome.example_id not in self.outcomes
                    continue
                self.outcomes.setdefault(line.outcome.example_id, line.outcome)
        notes += [f"{self._job.name}: {errored} of its examples errored and are attacked again"] if errored else []
        self.notes += [note for note in notes if note not in self.notes]

    def append(self, outcome: Outcome) -> None:
        """Append one outcome. It is in the file when this returns, and is synced to the disk soon after."""
        kept = outcome if self._store.texts else outcome.without_texts()
        self._appender.append(write_line(self._job, kept))
        self.outcomes[outcome.example_id] = kept

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


class Appender:
    """Appends to `path` in the folder `below`, which no other process writes. The file is made with the first line.

    All methods raise StoreError if the file cannot be written; `append` also for a sync that failed meanwhile.
    """

    def __init__(self, path: Path, below: Below) -> None:
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
                full = self._waiting >= GROUP
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
