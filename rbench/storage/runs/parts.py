"""The outcomes of an attack that several processes work on: each appends to a file of its own, until all are there.

    RUN/attack/<readable parts>/seed<k>-<key8>/outcomes.<process>.jsonl    what one process has made of the job so far
    RUN/attack/<readable parts>/seed<k>-<key8>/outcomes.jsonl              all, in the order of the sample, at the end

No two processes write one file, so nothing that one does can damage what another wrote. What a killed process wrote
counts. An example that two processes attacked has two outcomes, of which one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from rbench.spec import Digest, Job, Outcome
from rbench.storage.runs import files
from rbench.storage.runs.appender import Appender
from rbench.storage.runs.lines import digest, write_line
from rbench.storage.runs.reader import OUTCOMES
from rbench.storage.runs.store import Store


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
        self._appender = Appender(store.folder(job) / _name(writer), store.below(job))
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
                if line.outcome.status == "errored" and not self._counts(_writer_of(read.path), line.outcome):
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
        content = b"".join(write_line(self._job, outcome) + b"\n" for outcome in ordered)
        folder = self._store.folder(self._job)
        files.write(folder / OUTCOMES, content, self._store.below(self._job))
        for path in self._store.part_files(self._job):
            if path.name != OUTCOMES:
                with files.as_store_error(path):
                    self._store.below(self._job).remove(path)
        return digest(content, len(ordered), texts=any(outcome.original is not None for outcome in ordered))

    def _size(self, path: Path) -> int:
        with suppress(FileNotFoundError):  # another process has merged the files
            return self._store.below(self._job).stat(path).st_size
        return 0


def _name(writer: str) -> str:
    stem, _, ending = OUTCOMES.rpartition(".")
    return f"{stem}.{writer}.{ending}"


def _writer_of(path: Path) -> str | None:
    """Return the process that wrote a file; None for the file of all."""
    _, *writer, _ = path.name.split(".")
    return writer[0] if writer else None
