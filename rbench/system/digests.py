"""Compute hashes of files, and remember them while the file system says that the files are unchanged.

A file counts as unchanged while its device, inode, size, mtime and ctime stay the same. Size and mtime alone would not
do: `cp -p` and archives with fixed dates keep both. Replacing a file changes its inode or its ctime.

A `FingerprintedPlace` is a place with the fingerprint of its content. Planning makes them; jobs check them when they
open a place.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from rbench.errors import JobError, ResourceError
from rbench.schema import ResourceKind
from rbench.system import named

SETTLED = 2_000_000_000
"""Nanoseconds (2 s) since the last change of a file before its hash is remembered. The clock of a file system ticks:
two changes within one tick have the same time."""

Stamp = tuple[int, ...]
_known_hashes: dict[tuple[tuple[Stamp, ...], str], str] = {}
_noted_files: ContextVar[dict[Path, Stamp | None] | None] = ContextVar("noted", default=None)


def of_file(path: Path) -> str:
    """Return the sha256 of a file's content, 64 hex digits. Raises OSError if the file cannot be read."""

    def read() -> str:
        with named.open_file(path, None, packed=False) as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()

    return remember_hash([path], "", read)


def hash_files(files: Iterable[Path]) -> str:
    """Return the sha256 of the names and contents of `files`, in this order: 64 hex digits.

    Folders and dates do not enter.
    """
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0{of_file(path)}\n".encode())
    return digest.hexdigest()


def hash_folder(folder: Path | str) -> str:
    """Return the sha256 of the relative paths and contents of all files below a folder: 64 hex digits.

    Dates do not enter.
    """
    digest, folder = hashlib.sha256(), Path(folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{of_file(path)}\n".encode())
    return digest.hexdigest()


def remember_hash(paths: Sequence[Path], part: str, read: Callable[[], str]) -> str:
    """Return `read()`, the hash of some `part` of the files at `paths`, and remember it until one of them changes."""
    # Stamps are taken before the content is read: a file that changes meanwhile then has another stamp than this one.
    stamps, now = tuple(map(_stamp, paths)), time.time_ns()
    known_hash = _known_hashes.get((stamps, part))
    settled = known_hash is not None
    if known_hash is None:
        known_hash = read()
        # If the file changed while it was read, the hash may be of mixed content and must not be remembered.
        settled = tuple(map(_stamp, paths)) == stamps and all(now - stamp[-1] > SETTLED for stamp in stamps)
        if settled:
            _known_hashes[stamps, part] = known_hash
    if (noted := _noted_files.get()) is not None:
        noted.update((path, stamp if settled else None) for path, stamp in zip(paths, stamps, strict=True))
    return known_hash


@contextmanager
def note_hashed_files() -> Iterator[dict[Path, Stamp | None]]:
    """Collect the files that are hashed inside the block.

    The dictionary maps each file to its stamp (device, inode, size, mtime, ctime), or to None if its hash is not
    remembered yet.
    """
    files: dict[Path, Stamp | None] = {}
    token = _noted_files.set(files)
    try:
        yield files
    finally:
        _noted_files.reset(token)


def any_touched(files: Mapping[Path, Stamp | None]) -> bool:
    """Return whether the content of one of `files` (from `note_hashed_files`) may have changed.

    This asks the file system and reads nothing, so it takes microseconds a file.
    """
    try:
        return any(stamp is None or _stamp(path) != stamp for path, stamp in files.items())
    except OSError:
        return True


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True)
class FingerprintedPlace:
    """A place and the hash of its content at planning time.

    `where` is the path of a file or folder, `id@commit` for the hub, or a description in words. `mark(where)` computes
    the hash of the present content. It is a module-level function, so that it can be pickled for other processes.
    """

    where: str
    fingerprint: str
    mark: Callable[[str], str] = field(repr=False)

    def check(self) -> str:
        """Compute the fingerprint again and return it.

        Raises:
            JobError: the fingerprint differs from the planned one, or the place cannot be read any more.
        """
        try:
            fingerprint_now = self.mark(self.where)
        except (OSError, ResourceError) as error:
            fingerprint_now = f"none, because it cannot be read ({error})"
        if fingerprint_now != self.fingerprint:
            raise JobError(
                f"{self.where} changed after the run was planned: its fingerprint was {self.fingerprint} and is now "
                f"{fingerprint_now}. Restore it, or run the command again, which makes a new plan of what is there."
            )
        return fingerprint_now


class PlaceWatch:
    """Checks places while they are in use: before and after they are read, and on each call of `check`.

    A file that was opened must stay unchanged: networks are memory-mapped, and WordNet is read while it is used.
    """

    def __init__(self) -> None:
        self._files: dict[FingerprintedPlace, dict[Path, Stamp | None]] = {}

    @contextmanager
    def reading(self, place: FingerprintedPlace) -> Iterator[str]:
        """Yield the place's path, to be read inside the block. Raises JobError if its content is not the planned one.

        The content is checked before and after the block.
        """
        self.open(place)
        try:
            yield place.where
        finally:  # also after an error: a change of the file may be its cause
            self.open(place)

    def open(self, place: FingerprintedPlace) -> str:
        """Check a place, watch it from now on and return its path. Raises JobError if its content is not the planned
        one."""
        with note_hashed_files() as files:
            place.check()
        self._files[place] = files
        return place.where

    def check(self, ask: bool = False) -> None:
        """Raise JobError if one of the watched places changed. This takes microseconds while no file was touched.

        `ask`: look also at places without files, such as functions and endpoints, which are asked their probe again.
        """
        for place, files in self._files.items():
            if any_touched(files) or (ask and not files):
                self.open(place)


def locate_folder(path: Path) -> FingerprintedPlace:
    """Return the place of a folder, with the hash of all files in it."""
    return FingerprintedPlace(str(path), hash_folder(path), hash_folder)


@dataclass(frozen=True)
class FoundPlaces:
    """The places that preparation found for the jobs of a plan, so that no job searches again."""

    weights: Mapping[str, FingerprintedPlace]
    """Weights by encoder: its own, or its base's if a job trains it. Further models are listed by their own name."""
    resources: Mapping[ResourceKind, FingerprintedPlace]
    """The resources of the suite's profile that attacks and strategies need."""
    training: Mapping[str, Mapping[ResourceKind, FingerprintedPlace]]
    """The resources that encoders' objectives need, by encoder; each objective names a profile of its own."""
    victims: Mapping[tuple[str, str], FingerprintedPlace] = field(default_factory=dict)
    """The classifiers that exist, by name and task."""
