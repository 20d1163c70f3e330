"""Read and write entries of the weight cache, and remove what killed processes left in it.

An entry is written in a temporary folder (`rbench.system.scratch`) and renamed into its place when it is complete, so a
killed run leaves no partial entry. A lock per key prevents two runs from training the same weights. An existing entry
is trusted only if its record has the same key and its files match its manifest in name and content.

    manifest.json   {"files": {"config.json": "<sha256>", "record.json": "<sha256>", "tokenizer.json": ...}}

The manifest lists every file of the entry except itself. It is written last, before the entry is moved to its place.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock
from pydantic import ValidationError

from rbench.errors import JobError, StoreError
from rbench.schema import Job, Record, Strict
from rbench.system import digests, scratch
from rbench.system.below import SMALL_BYTES, Kind, SafeFolder

MANIFEST = "manifest.json"
WITHOUT_MANIFEST = f"it has no list of its files ({MANIFEST}), so they cannot be checked"


class WeightManifest(Strict):
    """The sha256 of each file of an entry, by its path in the entry."""

    files: dict[str, str]


def write_manifest(folder: Path) -> None:
    """Write the manifest of the files that are in `folder` now."""
    below = SafeFolder(folder)
    files = {name: digests.of_file(folder / name) for name in sorted(_kinds_of_files(folder, below))}
    below.replace(folder / MANIFEST, f"{WeightManifest(files=files).model_dump_json(indent=1)}\n".encode())


def find_problem(folder: Path, below: SafeFolder | None = None) -> str | None:
    """Say what is wrong with the files in `folder`, as the end of a sentence; None if they match its manifest.

    All of them are regular files then, and none is reached through a link below the folder of `below`.

    A repeated check is cheap: only files that changed since the last one are read.
    """
    try:
        below = below or SafeFolder(folder)
        digests_by_name = WeightManifest.model_validate_json(below.read(folder / MANIFEST, SMALL_BYTES)).files
        kinds = _kinds_of_files(folder, below)
        file_names = kinds.keys() - {MANIFEST}
        if missing := sorted(digests_by_name.keys() - file_names):
            return f"{_name_some(missing)} is missing"
        if surplus := sorted(file_names - digests_by_name.keys()):
            return f"{_name_some(surplus)} was added"
        if foreign := sorted(name for name, kind in kinds.items() if kind != "file"):
            return f"{_name_some(foreign)} is a {kinds[foreign[0]]}"
        if altered := [name for name, digest in digests_by_name.items() if digests.of_file(folder / name) != digest]:
            return f"{_name_some(altered)} was altered"
    except FileNotFoundError as error:
        return WITHOUT_MANIFEST if Path(error.filename).name == MANIFEST else f"{error.filename} is missing"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    except StoreError as error:
        return str(error).removesuffix(".")
    except ValidationError:
        return f"{MANIFEST} is damaged"
    return None


def weights_hash(folder: Path) -> str:
    """Compute the sha256 over the names and contents of the safetensors files in `folder` and below.

    Records use it to say which weights were used. The manifest, not this hash, says whether an entry is complete.
    """
    files = sorted(path for path in SafeFolder(folder).files(folder) if path.suffix == ".safetensors")
    names = [file.relative_to(folder).as_posix() for file in files]

    def read() -> str:
        digest = hashlib.sha256()
        for name, file in zip(names, files, strict=True):
            digest.update(name.encode())
            with file.open("rb") as handle:
                while chunk := handle.read(1 << 20):
                    digest.update(chunk)
        return digest.hexdigest()

    return digests.remember_hash(files, f"weights {names}", read)


def _kinds_of_files(folder: Path, below: SafeFolder) -> dict[str, Kind]:
    """Return the paths of all files in a folder and below, each with what it is. A link counts as a file."""
    return {path.relative_to(folder).as_posix(): kind for path, kind in below.walk(folder)}


def _name_some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


log = logging.getLogger("rbench")

RECORD = "record.json"
KEYS_FILE = "keys"
"""The file in which a run says which entries it needs."""
LEFT_ALONE_SECONDS = 7 * 24 * 3600
"""After this many seconds without a write, an unfinished file counts as left by a killed process. It has no lock."""

_warned_of: set[tuple[Path, str]] = set()


@dataclass
class WeightEntry:
    """A cache entry: one that is being made (`record` is None), or one that was found."""

    folder: Path
    final: Path
    record: Record | None

    def publish(self, record: Record) -> Record:
        """Write the record and the list of files beside the weights, and move the entry into its place.

        Raises ResourceError if the cache folder cannot be written.
        """
        with scratch.writable_cache(self.final):
            below = _open_cache(self.final)
            below.replace(self.folder / RECORD, record.model_dump_json(indent=1).encode())
            write_manifest(self.folder)
            below.make_folder(self.final.parent)
            # A rename onto a folder with files fails, so an old entry is moved out of the way first.
            with suppress(FileNotFoundError):  # an untrusted entry; it is removed with this temporary folder
                below.rename(self.final, self.folder.with_name("replaced"))
            below.rename(self.folder, self.final)
        _warned_of.difference_update({warning for warning in _warned_of if warning[0] == self.final})
        return record


class WeightCache:
    """The weights under `root`, one folder per job key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, key: str) -> Path:
        """Return where the entry of a job is, or would be."""
        return self.root / "weights" / key[:2] / key

    def lock_file(self, key: str) -> Path:
        """Return the file that is locked while the entry of a job is made or removed."""
        return self.root / "locks" / f"{key}.lock"

    def folder(self, key: str) -> Path:
        """Return the folder of a finished job's weights after checking that they are as they were written.

        The check is cheap if nothing changed since the last one. Raises JobError if they are missing or damaged.
        """
        record_or_reason = read_entry(self.place(key), key)
        if not isinstance(record_or_reason, Record):
            raise JobError(
                f"the weights of job {key[:8]} in {self.place(key)} cannot be used: "
                f"{record_or_reason or 'they are not there'}. Run the same command again, and they are made again."
            )
        self._note_use(key)
        return self.place(key)

    def has(self, key: str) -> bool:
        """Whether the cache has the weights of this job, complete and unchanged."""
        return self._found(key) is not None

    def seems_to_have(self, key: str) -> bool:
        """Whether there is an entry of this job. Reads no content, so the entry may turn out damaged in `has`."""
        return SafeFolder(self.root).kind(self.place(key) / MANIFEST) == "file"

    def _found(self, key: str) -> Record | None:
        record_or_reason = read_entry(self.place(key), key)
        if not isinstance(record_or_reason, str):
            return record_or_reason
        if (self.place(key), record_or_reason) not in _warned_of:
            _warned_of.add((self.place(key), record_or_reason))
            log.warning(
                "the cache entry %s cannot be trusted: %s; it is made again",
                _describe_entry(self.place(key)),
                record_or_reason,
            )
        return None

    def _note_use(self, key: str) -> None:
        with suppress(OSError):  # the cache may be read-only
            os.utime(self.place(key))

    @contextmanager
    def making(self, job: Job) -> Iterator[WeightEntry]:
        """Yield the entry for `job`, found or to be made, and hold the lock of its key meanwhile.

        Raises ResourceError if the cache folder cannot be written.
        """
        lock = filelock.FileLock(self.lock_file(job.key))
        with scratch.writable_cache(self.root):
            SafeFolder(self.root).make_folder(self.lock_file(job.key).parent)
            lock.acquire()
        try:
            # This is checked under the lock, because its previous holder may have made the entry.
            record = self._found(job.key)
            if record is not None:
                self._note_use(job.key)
                yield WeightEntry(self.place(job.key), self.place(job.key), record)
                return
            with scratch.temporary_folder(job.key[:8], self.root) as folder:
                (folder / "entry").mkdir()
                yield WeightEntry(folder / "entry", self.place(job.key), None)
        finally:
            lock.release()

    @contextmanager
    def using(self, keys: Iterable[str]) -> Iterator[None]:
        """Protect these entries from pruning by any process while the block lasts."""
        wanted = sorted(set(keys))
        if not wanted:
            yield
            return
        with scratch.temporary_folder("run", self.root) as folder:
            SafeFolder(self.root).replace(folder / KEYS_FILE, ("\n".join(wanted) + "\n").encode("ascii"))
            yield

    def in_use(self) -> set[str]:
        """Return the keys that running processes have named in `using`."""
        keys: set[str] = set()
        for file in scratch.list_locks(self.root):
            if scratch.is_held(file):
                with suppress(OSError):
                    content = SafeFolder(self.root).read(scratch.folder_of(file) / KEYS_FILE, SMALL_BYTES)
                    keys.update(content.decode("ascii", "replace").split())
        return keys

    def sweep(self) -> list[Path]:
        """Remove what killed processes left and return it; see the function of this name."""
        return remove_leftovers(self.root)


def read_entry(place: Path, key: str) -> Record | str | None:
    """Return the record of a complete entry, the reason why the entry cannot be trusted, or None if there is none."""
    below = _open_cache(place)
    try:
        if below.kind(place) in (None, "file"):
            return None
    except StoreError as error:
        return str(error).removesuffix(".")
    if (problem_text := find_problem(place, below)) is not None:
        return problem_text
    try:
        record = Record.model_validate_json(below.read(place / RECORD, SMALL_BYTES))
    except OSError as error:
        return f"its {RECORD} cannot be read ({error.strerror})"
    except ValidationError as error:
        first_error = error.errors()[0]
        field = ".".join(map(str, first_error["loc"]))
        detail = f"{field}: {first_error['msg']}" if field else first_error["msg"]
        return f"its {RECORD} is damaged or from another version of rbench ({detail})"
    if record.job.key != key:
        return "it holds the weights of another job"
    if record.provenance.weights_hash != weights_hash(place):
        return f"its weights are not those of which its {RECORD} is"
    return record


def _open_cache(place: Path) -> SafeFolder:
    """Return the cache in which an entry has its place, which is `WeightCache.place`."""
    return SafeFolder(place.parents[2])


def _describe_entry(place: Path) -> str:
    """Name an entry in a message: the beginning of its key, and its job if its record can be read."""
    try:
        record = Record.model_validate_json(_open_cache(place).read(place / RECORD, SMALL_BYTES))
    except (OSError, StoreError, ValidationError):
        return place.name[:8]
    return f"{place.name[:8]} ({record.job.name})"


# ---------------------------------------------------------------------------------------------------------- leftovers


def remove_leftovers(root: Path) -> list[Path]:
    """Remove what killed processes left in the cache folder `root`; return what was removed.

    These are folders whose lock nobody holds, and unfinished prepared files, in which nothing was written for
    `LEFT_ALONE_SECONDS` seconds.
    """
    removed = []
    for file in scratch.list_locks(root):
        with scratch.hold_lock(file) as lock:
            if lock is not None:
                place = scratch.folder_of(file)
                was_there = place.is_dir()
                scratch.remove_locked(lock)
                removed += [place] if was_there else []
    for file in _list_unfinished(root):
        removed.append(file)
        with suppress(OSError):
            SafeFolder(root).remove(file)
    return [place for place in removed if not place.exists()]


def list_leftovers(root: Path) -> list[Path]:
    """List what `remove_leftovers` would remove."""
    folders = (scratch.folder_of(file) for file in scratch.list_locks(root) if not scratch.is_held(file))
    return [*(place for place in folders if place.is_dir() and not place.is_symlink()), *_list_unfinished(root)]


def find_last_written(path: Path) -> float:
    """Return when a folder or file was last written, in seconds since the epoch. Links are not followed."""
    newest = path.lstat().st_mtime
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                newest = max(newest, (Path(parent) / name).lstat().st_mtime)
    return newest


def _list_unfinished(root: Path) -> list[Path]:
    """List unfinished files of edits, rows and translations."""
    unfinished = [*(root / "prepared").glob("*.????????.tmp"), *(root / "prepared" / "translations").glob("*/*.tmp")]
    limit = time.time() - LEFT_ALONE_SECONDS
    return sorted(
        file for file in unfinished if file.is_file() and not file.is_symlink() and find_last_written(file) < limit
    )
