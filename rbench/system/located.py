"""Places with the fingerprint of their content. Planning makes them; jobs check them when they open a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rbench.errors import JobError, ResourceError
from rbench.schema import ResourceKind
from rbench.system import digests


@dataclass(frozen=True)
class Located:
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
            now = self.mark(self.where)
        except (OSError, ResourceError) as error:
            raise JobError(
                f"{self.where} changed after the run was planned: its fingerprint was {self.fingerprint}, and now it "
                f"cannot be read ({error}). Restore it or name another, then run the command again."
            ) from error
        if now != self.fingerprint:
            raise JobError(
                f"{self.where} changed after the run was planned: its fingerprint was {self.fingerprint} and is now "
                f"{now}. To use the new content, run the command again: it makes a new plan."
            )
        return now


class Watch:
    """Checks places while they are in use: before and after they are read, and on each call of `check`.

    A file that was opened must stay unchanged: networks are memory-mapped, and WordNet is read while it is used.
    """

    def __init__(self) -> None:
        self._files: dict[Located, dict[Path, digests.Stamp | None]] = {}

    @contextmanager
    def reading(self, place: Located) -> Iterator[str]:
        """Yield the place's path, to be read inside the block. Raises JobError if its content is not the planned one.

        The content is checked before and after the block.
        """
        self.open(place)
        try:
            yield place.where
        finally:  # also after an error: a change of the file may be its cause
            self.open(place)

    def open(self, place: Located) -> str:
        """Check a place, watch it from now on and return its path. Raises JobError if its content is not the planned
        one."""
        with digests.noted() as files:
            place.check()
        self._files[place] = files
        return place.where

    def check(self) -> None:
        """Raise JobError if one of the watched places changed. This takes microseconds while no file was touched."""
        for place, files in self._files.items():
            if digests.touched(files):
                self.open(place)


def folder(path: Path) -> Located:
    """Return the place of a folder, with the hash of all files in it."""
    return Located(str(path), digests.of_folder(path), digests.of_folder)


@dataclass(frozen=True)
class Places:
    """The places that preparation found for the jobs of a plan, so that no job searches again."""

    weights: Mapping[str, Located]
    """Weights by encoder: its own, or its base's if a job trains it. Further models are listed by their own name."""
    resources: Mapping[ResourceKind, Located]
    """The resources of the suite's profile that attacks and strategies need."""
    training: Mapping[str, Mapping[ResourceKind, Located]]
    """The resources that encoders' objectives need, by encoder; each objective names a profile of its own."""
    victims: Mapping[tuple[str, str], Located] = field(default_factory=dict)
    """The classifiers that exist, by name and task."""
