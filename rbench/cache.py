"""The content-addressed cache of weights: what pretrain and finetune jobs make, by job key.

An entry is written beside its place and renamed into it when it is whole, so a killed run leaves nothing half made; a
lock per key keeps two runs from training the same thing twice. A found entry is trusted only if its record names the
same key and its weights still have the hash that was recorded.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import filelock
from pydantic import ValidationError

from rbench.errors import JobError
from rbench.spec import Job, Record

log = logging.getLogger("rbench")


def default_cache() -> Path:
    """`RBENCH_CACHE`, or `rbench` under the user's cache folder; an empty value counts as unset."""
    named = os.environ.get("RBENCH_CACHE", "")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rbench"


def weights_hash(folder: Path) -> str:
    """sha256 over the names and contents of the safetensors files in `folder` and below."""
    files = sorted(folder.rglob("*.safetensors"))
    return _hash(folder, tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@cache
def _hash(folder: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, _, _ in files:
        digest.update(file.relative_to(folder).as_posix().encode())
        with file.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


@dataclass
class Entry:
    """A cache entry under construction (`record` is None), or one that was found."""

    folder: Path
    final: Path
    record: Record | None

    def publish(self, record: Record) -> Record:
        """Write the record beside the weights and move both into their place."""
        (self.folder / "record.json").write_text(record.model_dump_json(indent=1), encoding="utf-8")
        self.final.parent.mkdir(parents=True, exist_ok=True)
        self.folder.rename(self.final)
        return record


class WeightCache:
    """Weights under `root`, one folder a job key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _place(self, key: str) -> Path:
        return self.root / "weights" / key[:2] / key

    def folder(self, key: str) -> Path:
        """Where the weights of a finished job lie. Raises JobError where they are gone."""
        place = self._place(key)
        if not (place / "record.json").exists():
            raise JobError(
                f"the weights of job {key[:8]} are no longer in the cache ({self.root}); run the suite again"
            )
        return place

    def has(self, key: str) -> bool:
        """Whether the weights of this job are here, whole and unchanged."""
        return self._found(key) is not None

    def _found(self, key: str) -> Record | None:
        place = self._place(key)
        try:
            record = Record.model_validate_json((place / "record.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValidationError:
            log.warning("the cache entry %s was written by another version of rbench; it is made again", key[:8])
            return None
        except UnicodeDecodeError:
            log.warning("the cache entry %s is damaged; it is made again", key[:8])
            return None
        if record.job.key != key or record.provenance.weights_hash != weights_hash(place):
            log.warning("the cache entry %s is damaged; it is made again", key[:8])
            return None
        return record

    @contextmanager
    def making(self, job: Job) -> Iterator[Entry]:
        """An entry for `job`, found or to be made; only one process at a time gets past here for a key."""
        (self.root / "locks").mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self.root / "locks" / f"{job.key}.lock"):
            final = self._place(job.key)
            record = self._found(job.key)
            if record is not None:
                yield Entry(final, final, record)
                return
            shutil.rmtree(final, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=f"{job.key[:8]}-", dir=_made(self.root / "tmp")))
            try:
                yield Entry(folder, final, None)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
