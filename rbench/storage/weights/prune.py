"""Select and remove entries of the cache. Nothing that a running process uses and nothing elsewhere is removed."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rbench.errors import ResourceError
from rbench.spec import Record
from rbench.storage.weights.cache import WeightCache, look
from rbench.storage.weights.inventory import Item
from rbench.system import scratch
from rbench.system.below import Below

UNITS = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
WORK = ("left", "in work")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The conditions for removal. An item is selected if all conditions that are given hold."""

    older_than: float | None = None
    """The item was not used for at least this many seconds."""
    runs: frozenset[str] | None = None
    """Keys of jobs: one of them made the item."""
    keep: frozenset[str] | None = None
    """Keys of jobs: another job made the item. What no job made (edits, translations, rows, merged) stays."""

    @property
    def any(self) -> bool:
        """Whether any condition is given."""
        return (self.older_than, self.runs, self.keep) != (None, None, None)


def seconds(text: str) -> float:
    """Return the seconds in `12h`, `30d` or `2w`. Raises ValueError for anything else."""
    found = re.fullmatch(r"(\d{1,6})([hdw])", text.strip(), re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is not a length of time: write hours, days or weeks as in 12h, 30d or 2w")
    return int(found[1]) * UNITS[found[2]]


def chosen(
    items: Sequence[Item],
    wanted: Wanted,
    now: float | None = None,
    track: Callable[[Sequence[Item]], Iterable[Item]] = iter,
) -> list[Item]:
    """Select the items that are to be removed; without a condition, those that are useless.

    Useless are leftovers of killed processes, weights that cannot be trusted, and checkpoints of what is trained. The
    field `why` gives the reason. All weights are read to find out; `track` yields the items and may show the progress.
    """
    now = time.time() if now is None else now
    if not wanted.any:
        reasons = ((item, useless(item, items)) for item in track(items) if not item.in_use)
        return [dataclasses.replace(item, why=why) for item, why in reasons if why is not None]
    conditions: list[Callable[[Item], bool]] = []
    if (limit := wanted.older_than) is not None:
        conditions.append(lambda item: now - item.used >= limit)
    if (runs := wanted.runs) is not None:
        conditions.append(lambda item: item.key in runs)
    if (keep := wanted.keep) is not None:
        conditions.append(lambda item: item.key is not None and item.key not in keep)
    return [
        item
        for item in items
        if not item.in_use and item.kind not in ("back-ends", *WORK) and all(holds(item) for holds in conditions)
    ]


def useless(item: Item, items: Sequence[Item]) -> str | None:
    """Say why an item is useless; None if it may be of use."""
    if item.kind == "left":
        return "left by a killed process"
    if item.kind == "checkpoints":
        trained = (other.kind for other in items if other.key == item.key and other.kind in ("encoder", "victim"))
        return next((f"its {kind} is trained" for kind in trained), None)
    return problem(item)


def problem(item: Item) -> str | None:
    """Read the files of weights and say why they cannot be trusted; None if they can, and for all other items."""
    if item.key is None or item.kind == "checkpoints":
        return None
    found = look(item.path, item.key)
    return "it is gone" if found is None else None if isinstance(found, Record) else found


def remove(root: Path, items: Sequence[Item]) -> list[Item]:
    """Remove items from the cache folder `root`; return those that were removed. What a process uses stays.

    Raises ResourceError if the operating system refuses a removal.
    """
    cache = WeightCache(root)
    if any(item.kind == "left" for item in items):
        cache.sweep()
    gone = []
    for item in items:
        try:
            if item.kind != "left":
                with _held(cache, item.key) as held:
                    if held and item.key not in cache.in_use():
                        _delete(root, item.path)
        except OSError as error:
            raise ResourceError(f"{item.path} cannot be removed ({error.strerror or error})") from error
        if not item.path.exists():
            gone.append(item)
    return gone


@contextmanager
def _held(cache: WeightCache, key: str | None) -> Iterator[bool]:
    """Try to lock the entry of a job for the block; yield whether that succeeded. Without a key, yield True."""
    if key is None:
        yield True
        return
    file = cache.lock_file(key)
    Below(cache.root).make_folder(file.parent)
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _delete(root: Path, path: Path) -> None:
    """Move the path out of its place in one step, then delete it: readers find all of it or nothing."""
    if not _is_inside(root, path):
        return
    with scratch.folder("prune", root) as folder, suppress(FileNotFoundError):
        Below(root).rename(path, folder / path.name)


def _is_inside(root: Path, path: Path) -> bool:
    """Whether a path is in the cache folder with no link on the way. A link may be newer than the listing."""
    above = path.parent
    straight = above.is_relative_to(root) and above.resolve() == root.resolve() / above.relative_to(root)
    return straight and not path.is_symlink()
