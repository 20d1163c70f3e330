"""A place together with what was found there: planning makes such pairs, jobs check them when they open the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rbench.errors import JobError, ResourceError
from rbench.spec import ResourceKind
from rbench.system import digests


@dataclass(frozen=True)
class Located:
    """Where something lies, and the hash of what it contained when it was found.

    `where` is what opens it: the path of a file or folder, `id@commit` for the hub, or words. `mark` gives the hash of
    what lies at `where` now; it is a function of a module, so that a place reaches other processes.
    """

    where: str
    fingerprint: str
    mark: Callable[[str], str] = field(repr=False)

    def check(self) -> str:
        """The fingerprint, computed anew.

        Raises:
            JobError: it is another one than when the place was found, or the place cannot be read any more.
        """
        try:
            now = self.mark(self.where)
        except (OSError, ResourceError) as error:
            raise JobError(
                f"{self.where} changed after the run was planned: its fingerprint was {self.fingerprint}, and now it "
                f"cannot be read ({error}). Put it back or name another, then run the command again."
            ) from error
        if now != self.fingerprint:
            raise JobError(
                f"{self.where} changed after the run was planned: its fingerprint was {self.fingerprint} and is {now}. "
                "To go on with what is there now, run the command again: it plans anew."
            )
        return now


class Watch:
    """Places that are in use: each is checked before and after it is read, and as often as somebody asks.

    What is in memory may follow its file: networks are mapped from theirs, WordNet is read while it is used.
    """

    def __init__(self) -> None:
        self._files: dict[Located, dict[Path, digests.Stamp | None]] = {}

    @contextmanager
    def reading(self, place: Located) -> Iterator[str]:
        """Where it lies, to be read inside. JobError where it is not, or is no longer, what was planned."""
        self.open(place)
        try:
            yield place.where
        finally:  # an exchange may also be why it could not be read
            self.open(place)

    def open(self, place: Located) -> str:
        """Where it lies, once it is clear that it is what was planned; JobError where it is not."""
        with digests.noted() as files:
            place.check()
        self._files[place] = files
        return place.where

    def check(self) -> None:
        """JobError where one of the places changed. It costs microseconds while nothing was touched."""
        for place, files in self._files.items():
            if digests.touched(files):
                self.open(place)


def folder(path: Path) -> Located:
    """A folder with all that is in it."""
    return Located(str(path), _of_folder(str(path)), _of_folder)


def _of_folder(where: str) -> str:
    return digests.of_folder(Path(where))


@dataclass(frozen=True)
class Places:
    """What preparation found for the jobs of a plan, so that none of them searches again."""

    weights: Mapping[str, Located]
    """By encoder: its weights where no job makes them, else its base's. By any other name: further models."""
    resources: Mapping[ResourceKind, Located]
    """Of the suite's profile, those that attacks and strategies need."""
    training: Mapping[str, Mapping[ResourceKind, Located]]
    """What encoders' objectives ask of resource profiles of their own, by encoder."""
