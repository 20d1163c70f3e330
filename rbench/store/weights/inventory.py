"""List what is in the cache (weights, checkpoints, prepared data, and what killed processes left), and prune it.

Nothing that a running process uses and nothing elsewhere is removed.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import Timeout
from pydantic import ValidationError

from rbench.errors import ResourceError, StoreError
from rbench.schema import Record
from rbench.store.weights.cache import RECORD, WeightCache, find_last_written, list_leftovers, read_entry
from rbench.system import scratch
from rbench.system.below import SMALL_BYTES, SafeFolder

PreparedKind = Literal["edits", "translations", "rows", "vectors", "words", "asked", "merged", "back-ends"]
Kind = Literal["encoder", "victim", "damaged", "checkpoints", PreparedKind, "in work", "left"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_KEY = re.compile(r"[0-9a-f]{64}")
SECONDS_OF_UNIT = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
WORK_KINDS = ("left", "in work")


@dataclass(frozen=True)
class CacheItem:
    """One thing in the cache that is kept or removed as a whole."""

    kind: Kind
    """encoder, victim: weights that a job made. damaged: weights whose record cannot be read. checkpoints: those of a
    running or killed training. edits, translations: prepared corpora. rows: data of the embedded world. vectors: those
    of the documents of rankings. words: by which jieba divides Chinese texts. asked: vectors that an endpoint gave.
    merged: an adapter (PEFT) in its base. back-ends: the fastest one on this machine, and how fast that is. in work:
    the folder of a running process. left: the folder of a killed process."""
    name: str
    """The job that made it, or the training under way; else the name of the file or folder."""
    path: Path
    size: int
    """The size in bytes."""
    used: float
    """When weights were last made or used, or when anything else was last written; seconds since the epoch."""
    key: str | None = None
    """The key of the job that made it, if a job did."""
    in_use: bool = False
    """Whether a running process makes it, removes it, or runs jobs that need it."""
    why: str = ""
    """Why it is useless, in words, if `prune` found that."""


def list_items(root: Path) -> list[CacheItem]:
    """List everything that rbench put in the cache folder `root`, by kind and name. Links are left out.

    Nothing is hashed. Raises OSError if `root` is not a folder or cannot be read.
    """
    cache = WeightCache(root)
    if not root.exists():
        return []
    if not root.is_dir():  # it would seem to be empty
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
    needed = cache.in_use()
    listed = [
        *_list_weights(cache, needed),
        *_list_checkpoints(cache, needed),
        *_list_prepared(root, bool(needed)),
        *_list_work(root),
    ]
    measured = (root / "backends.json", root / "speed.json")
    listed += [_build_item("back-ends", file.name, file) for file in measured if file.is_file()]
    return sorted(listed, key=lambda item: (KINDS.index(item.kind), item.name, str(item.path)))


def _list_weights(cache: WeightCache, needed: set[str]) -> Iterator[CacheItem]:
    below = SafeFolder(cache.root)
    for prefix_folder in _list_folders(cache.root / "weights"):
        for place in _list_folders(prefix_folder):
            if _KEY.fullmatch(place.name) and place.name.startswith(prefix_folder.name):
                key, name = place.name, "unknown"
                kind: Kind = "damaged"
                with suppress(OSError, StoreError, ValidationError):
                    job = Record.model_validate_json(below.read(place / RECORD, SMALL_BYTES)).job
                    kind, name = ("encoder" if job.stage == "pretrain" else "victim"), job.name
                in_use = key in needed or scratch.is_held(cache.lock_file(key))
                yield _build_item(kind, name, place, used=place.stat().st_mtime, key=key, in_use=in_use)


def _list_checkpoints(cache: WeightCache, needed: set[str]) -> Iterator[CacheItem]:
    for place in _list_folders(cache.root / "checkpoints"):
        if _KEY.fullmatch(key := place.name):
            name = "unknown"
            with suppress(StoreError):
                name = str((SafeFolder(cache.root).read_json(place / "run.json") or {}).get("name", name))
            in_use = key in needed or scratch.is_held(cache.lock_file(key))
            yield _build_item("checkpoints", name, place, key=key, in_use=in_use)


def _list_prepared(root: Path, in_use: bool) -> Iterator[CacheItem]:
    """List prepared data. No lock says who reads them, so all count as in use while any run needs weights."""
    prepared = root / "prepared"
    kinds: dict[Kind, str] = {
        "edits": "edits-*.jsonl",
        "rows": "mini-*.json",
        "vectors": "vectors-*.npy",
        "words": "words/*",
    }
    for kind, pattern in kinds.items():
        for file in sorted(prepared.glob(pattern)):
            if file.is_file() and not file.is_symlink():
                yield _build_item(kind, file.name, file, in_use=in_use)
    for place in _list_folders(prepared / "translations"):
        yield _build_item("translations", place.name[:16], place, in_use=in_use)
    for place in _list_folders(root / "endpoints"):
        if _KEY.fullmatch(place.name):
            about = SafeFolder(root).read_json(place / "about.json") or {}
            yield _build_item("asked", str(about.get("model", place.name[:16]))[:100], place, in_use=in_use)
    for place in _list_folders(root / "merged"):
        if _KEY.fullmatch(place.name):
            yield _build_item("merged", place.name[:16], place, in_use=in_use)


def _list_work(root: Path) -> Iterator[CacheItem]:
    for place in list_leftovers(root):
        yield _build_item("left", place.name, place)
    for file in scratch.list_locks(root):
        place = scratch.folder_of(file)
        if scratch.is_held(file) and place.is_dir() and not place.is_symlink():
            yield _build_item("in work", place.name, place, in_use=True)


def _build_item(kind: Kind, name: str, path: Path, *, used: float | None = None, **more: Any) -> CacheItem:
    return CacheItem(kind, name, path, _total_size(path), find_last_written(path) if used is None else used, **more)


def _list_folders(parent: Path) -> list[Path]:
    """List the folders in a folder, without links and hidden ones. Empty if there is no such folder."""
    if parent.is_symlink() or not parent.is_dir():
        return []
    folders = (path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    return sorted(path for path in folders if not path.name.startswith("."))


def _total_size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder and below."""
    if not path.is_dir():
        return path.lstat().st_size
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            total += 0 if file.is_dir() and not file.is_symlink() else file.lstat().st_size
    return total


# ------------------------------------------------------------------------------------------------------------ pruning


@dataclass(frozen=True)
class PruneConditions:
    """The conditions for removal. An item is selected if all conditions that are given hold."""

    older_than: float | None = None
    """The item was not used for at least this many seconds."""
    runs: frozenset[str] | None = None
    """Keys of jobs: one of them made the item."""
    keep: frozenset[str] | None = None
    """Keys of jobs: another job made the item. What no job made (edits, translations, rows, asked, merged) stays."""


def parse_seconds(text: str) -> float:
    """Return the seconds in `12h`, `30d` or `2w`. Raises StoreError for anything else."""
    match = re.fullmatch(r"(\d{1,6})([hdw])", text.strip(), re.ASCII)
    if match is None:
        raise StoreError(f"{text!r} is not a length of time: write hours, days or weeks as in 12h, 30d or 2w")
    return int(match[1]) * SECONDS_OF_UNIT[match[2]]


def select_items(
    items: Sequence[CacheItem],
    wanted: PruneConditions,
    now: float | None = None,
    track: Callable[[Sequence[CacheItem]], Iterable[CacheItem]] = iter,
) -> list[CacheItem]:
    """Select the items that are to be removed; without a condition, those that are useless.

    Useless are leftovers of killed processes, weights that cannot be trusted, and checkpoints of what is trained. The
    field `why` gives the reason. All weights are read to find out; `track` yields the items and may show the progress.
    """
    now = time.time() if now is None else now
    if wanted == PruneConditions():
        reasons = ((item, why_useless(item, items)) for item in track(items) if not item.in_use)
        return [replace(item, why=why) for item, why in reasons if why is not None]
    conditions: list[Callable[[CacheItem], bool]] = []
    if (limit := wanted.older_than) is not None:
        conditions.append(lambda item: now - item.used >= limit)
    if (runs := wanted.runs) is not None:
        conditions.append(lambda item: item.key in runs)
    if (keep := wanted.keep) is not None:
        conditions.append(lambda item: item.key is not None and item.key not in keep)
    return [
        item
        for item in items
        if not item.in_use and item.kind not in ("back-ends", *WORK_KINDS) and all(holds(item) for holds in conditions)
    ]


def why_useless(item: CacheItem, items: Sequence[CacheItem]) -> str | None:
    """Say why an item is useless; None if it may be of use."""
    if item.kind == "left":
        return "left by a killed process"
    if item.kind == "checkpoints":
        trained = (other.kind for other in items if other.key == item.key and other.kind in ("encoder", "victim"))
        return next((f"its {kind} is trained" for kind in trained), None)
    return why_untrusted(item)


def why_untrusted(item: CacheItem) -> str | None:
    """Read the files of weights and say why they cannot be trusted; None if they can, and for all other items."""
    if item.key is None or item.kind == "checkpoints":
        return None
    record_or_reason = read_entry(item.path, item.key)
    if record_or_reason is None:
        return "it is gone"
    return None if isinstance(record_or_reason, Record) else record_or_reason


def remove_items(root: Path, items: Sequence[CacheItem]) -> list[CacheItem]:
    """Remove items from the cache folder `root`; return those that were removed. What a process uses stays.

    Raises ResourceError if the operating system refuses a removal.
    """
    cache = WeightCache(root)
    if any(item.kind == "left" for item in items):
        cache.sweep()
    removed = []
    for item in items:
        try:
            if item.kind != "left":
                lock: AbstractContextManager[object] = nullcontext(True)
                if item.key is not None:
                    SafeFolder(root).make_folder((file := cache.lock_file(item.key)).parent)
                    lock = scratch.hold_lock(file, Timeout)
                with lock as held:
                    # Looked at again under the lock: a run may have begun to use it since it was listed.
                    if held and item.key not in cache.in_use():
                        _delete(root, item.path)
        except OSError as error:
            raise ResourceError(f"{item.path} cannot be removed ({error.strerror or error})") from error
        if not item.path.exists():
            removed.append(item)
    return removed


def _delete(root: Path, path: Path) -> None:
    """Move the path out of its place in one step, then delete it: readers find all of it or nothing."""
    above = path.parent
    straight = above.is_relative_to(root) and above.resolve() == root.resolve() / above.relative_to(root)
    if straight and not path.is_symlink():  # no link is on the way; one may be newer than the listing
        with scratch.temporary_folder("prune", root) as folder, suppress(FileNotFoundError):
            SafeFolder(root).rename(path, folder / path.name)
