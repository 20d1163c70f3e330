"""The cache of weights.

An entry is written in a folder of its own (`rbench.system.scratch`) and renamed into its place when it is whole, so a
killed run leaves nothing half made; a lock per key keeps two runs from training the same thing twice. A found entry is
trusted only if its record names the same key and its files are those of its manifest, each with the content that it
had.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock
from pydantic import ValidationError

from rbench.errors import JobError
from rbench.spec import Job, Record
from rbench.storage.weights import leftovers, manifest
from rbench.system import scratch

log = logging.getLogger("rbench")

RECORD = "record.json"
USED = "keys"
"""The file in which a run says which entries it needs."""

_warned: set[tuple[Path, str]] = set()


@dataclass
class Entry:
    """A cache entry under construction (`record` is None), or one that was found."""

    folder: Path
    final: Path
    record: Record | None

    def publish(self, record: Record) -> Record:
        """Write the record and the list of files beside the weights, and move all of them into their place.

        Raises ResourceError where the cache folder cannot be written.
        """
        with scratch.writing(self.final):
            (self.folder / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
            manifest.write(self.folder)
            self.final.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # one that is not trusted; it goes with the folder in which this was made
                self.final.rename(self.folder.with_name("replaced"))
            self.folder.rename(self.final)
        _warned.difference_update({said for said in _warned if said[0] == self.final})
        return record


class WeightCache:
    """Weights under `root`, one folder a job key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, key: str) -> Path:
        """Where the entry of a job is, or would be."""
        return self.root / "weights" / key[:2] / key

    def lock_file(self, key: str) -> Path:
        """What is locked while the entry of a job is made or removed."""
        return self.root / "locks" / f"{key}.lock"

    def folder(self, key: str) -> Path:
        """Where the weights of a finished job lie, once it is checked that they are what was written.

        Cheap where nothing changed since the last time. Raises JobError where they are gone or damaged.
        """
        found = look(self.place(key), key)
        if found is None:
            raise JobError(
                f"the weights of job {key[:8]} are no longer in the cache ({self.root}); run the same command again, "
                "and they are made again"
            )
        if isinstance(found, str):
            raise JobError(
                f"the weights of job {key[:8]} in {self.place(key)} cannot be trusted: {found}. Run the same command "
                "again, and they are made again."
            )
        self._note_use(key)
        return self.place(key)

    def has(self, key: str) -> bool:
        """Whether the weights of this job are here, whole and unchanged."""
        return self._found(key) is not None

    def seems_to_have(self, key: str) -> bool:
        """Whether there is an entry of this job, of which nothing is read: `has` may yet find it damaged."""
        return (self.place(key) / manifest.NAME).is_file()

    def _found(self, key: str) -> Record | None:
        found = look(self.place(key), key)
        if not isinstance(found, str):
            return found
        if (self.place(key), found) not in _warned:
            _warned.add((self.place(key), found))
            log.warning("the cache entry %s cannot be trusted: %s; it is made again", _called(self.place(key)), found)
        return None

    def _note_use(self, key: str) -> None:
        with suppress(OSError):  # a cache that may only be read
            os.utime(self.place(key))

    @contextmanager
    def making(self, job: Job) -> Iterator[Entry]:
        """An entry for `job`, found or to be made; only one process at a time gets past here for a key.

        Raises ResourceError where the cache folder cannot be written.
        """
        lock = filelock.FileLock(self.lock_file(job.key))
        with scratch.writing(self.root):
            self.lock_file(job.key).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            record = self._found(job.key)
            if record is not None:
                self._note_use(job.key)
                yield Entry(self.place(job.key), self.place(job.key), record)
                return
            with scratch.folder(job.key[:8], self.root) as folder:
                (folder / "entry").mkdir()
                yield Entry(folder / "entry", self.place(job.key), None)
        finally:
            lock.release()

    @contextmanager
    def using(self, keys: Iterable[str]) -> Iterator[None]:
        """Keep these entries from being pruned while the block lasts, wherever that is tried."""
        wanted = sorted(set(keys))
        if not wanted:
            yield
            return
        with scratch.folder("run", self.root) as folder:
            (folder / USED).write_text("\n".join(wanted) + "\n", encoding="ascii")
            yield

    def in_use(self) -> set[str]:
        """Keys that living processes have named in `using`."""
        found: set[str] = set()
        for file in scratch.locks(self.root):
            if scratch.is_held(file):
                with suppress(OSError):
                    found.update((scratch.folder_of(file) / USED).read_text(encoding="ascii").split())
        return found

    def sweep(self) -> list[Path]:
        """Remove what killed processes left; see `leftovers.sweep`."""
        return leftovers.sweep(self.root)


def look(place: Path, key: str) -> Record | str | None:
    """The record of an entry that is whole; why it cannot be trusted, in words; or None where there is none."""
    if not place.is_dir():
        return None
    if (problem := manifest.problem(place)) is not None:
        return problem
    try:
        record = Record.model_validate_json((place / RECORD).read_bytes())
    except (OSError, ValidationError):
        return f"its {RECORD} is of another version of rbench"
    return record if record.job.key == key else "it holds the weights of another job"


def _called(place: Path) -> str:
    """An entry for people: the job as its record names it, where it can be read, and the beginning of its key."""
    try:
        record = Record.model_validate_json((place / RECORD).read_bytes())
    except (OSError, ValidationError):
        return place.name[:8]
    return f"{place.name[:8]} ({record.job.name})"
