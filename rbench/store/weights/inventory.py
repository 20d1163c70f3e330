"""List what is in the cache (weights, checkpoints, prepared data, and what killed processes left), and prune it.

Nothing that a running process uses and nothing elsewhere is removed.
"""

from __future__ import annotations

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
from rbench.store.weights.cache import RECORD, WeightCache, last_written, left, look
from rbench.system import scratch
from rbench.system.below import SMALL, Below

Prepared = Literal["edits", "translations", "rows", "vectors", "words", "asked", "merged", "back-ends"]
Kind = Literal["encoder", "victim", "damaged", "checkpoints", Prepared, "in work", "left"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_KEY = re.compile(r"[0-9a-f]{64}")
UNITS = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
WORK = ("left", "in work")


@dataclass(frozen=True)
class Item:
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


def items(root: Path) -> list[Item]:
    """List everything that rbench put in the cache folder `root`, by kind and name. Links are left out.

    Nothing is hashed. Raises ResourceError if `root` is not a folder or cannot be read.
    """
    cache = WeightCache(root)
    try:
        if not root.exists():
            return []
        if not root.is_dir():
            raise ResourceError(f"the cache folder {root} is not a folder; RBENCH_CACHE=DIR names another")
        needed = cache.in_use()
        found = [*_weights(cache, needed), *_checkpoints(cache, needed), *_prepared(root, bool(needed)), *_work(root)]
        measured = (root / "backends.json", root / "speed.json")
        found += [_item("back-ends", file.name, file) for file in measured if file.is_file()]
        return sorted(found, key=lambda item: (KINDS.index(item.kind), item.name, str(item.path)))
    except OSError as error:
        raise ResourceError(
            f"the cache folder {root} cannot be read ({error.strerror}: {error.filename}); "
            "RBENCH_CACHE=DIR names another"
        ) from error


def _weights(cache: WeightCache, needed: set[str]) -> Iterator[Item]:
    below = Below(cache.root)
    for above in _folders(cache.root / "weights"):
        for place in _folders(above):
            if _KEY.fullmatch(place.name) and place.name.startswith(above.name):
                key, name = place.name, "unknown"
                kind: Kind = "damaged"
                with suppress(OSError, StoreError, ValidationError):
                    job = Record.model_validate_json(below.read(place / RECORD, SMALL)).job
                    kind, name = ("encoder" if job.stage == "pretrain" else "victim"), job.name
                in_use = key in needed or scratch.is_held(cache.lock_file(key))
                yield _item(kind, name, place, used=place.stat().st_mtime, key=key, in_use=in_use)


def _checkpoints(cache: WeightCache, needed: set[str]) -> Iterator[Item]:
    for place in _folders(cache.root / "checkpoints"):
        if _KEY.fullmatch(key := place.name):
            name = "unknown"
            with suppress(StoreError):
                name = str((Below(cache.root).read_json(place / "run.json") or {}).get("name", name))
            in_use = key in needed or scratch.is_held(cache.lock_file(key))
            yield _item("checkpoints", name, place, key=key, in_use=in_use)


def _prepared(root: Path, in_use: bool) -> Iterator[Item]:
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
                yield _item(kind, file.name, file, in_use=in_use)
    for place in _folders(prepared / "translations"):
        yield _item("translations", place.name[:16], place, in_use=in_use)
    for place in _folders(root / "endpoints"):
        if _KEY.fullmatch(place.name):
            about = Below(root).read_json(place / "about.json") or {}
            yield _item("asked", str(about.get("model", place.name[:16]))[:100], place, in_use=in_use)
    for place in _folders(root / "merged"):
        if _KEY.fullmatch(place.name):
            yield _item("merged", place.name[:16], place, in_use=in_use)


def _work(root: Path) -> Iterator[Item]:
    for place in left(root):
        yield _item("left", place.name, place)
    for file in scratch.locks(root):
        place = scratch.folder_of(file)
        if scratch.is_held(file) and place.is_dir() and not place.is_symlink():
            yield _item("in work", place.name, place, in_use=True)


def _item(kind: Kind, name: str, path: Path, *, used: float | None = None, **more: Any) -> Item:
    return Item(kind, name, path, _size(path), last_written(path) if used is None else used, **more)


def _folders(parent: Path) -> list[Path]:
    """List the folders in a folder, without links and hidden ones. Empty if there is no such folder."""
    if parent.is_symlink() or not parent.is_dir():
        return []
    found = (path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    return sorted(path for path in found if not path.name.startswith("."))


def _size(path: Path) -> int:
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
class Wanted:
    """The conditions for removal. An item is selected if all conditions that are given hold."""

    older_than: float | None = None
    """The item was not used for at least this many seconds."""
    runs: frozenset[str] | None = None
    """Keys of jobs: one of them made the item."""
    keep: frozenset[str] | None = None
    """Keys of jobs: another job made the item. What no job made (edits, translations, rows, asked, merged) stays."""


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
    if wanted == Wanted():
        reasons = ((item, useless(item, items)) for item in track(items) if not item.in_use)
        return [replace(item, why=why) for item, why in reasons if why is not None]
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
                alone: AbstractContextManager[object] = nullcontext(True)
                if item.key is not None:
                    Below(root).make_folder((file := cache.lock_file(item.key)).parent)
                    alone = scratch.holding(file, Timeout)
                with alone as held:
                    if held and item.key not in cache.in_use():
                        _delete(root, item.path)
        except OSError as error:
            raise ResourceError(f"{item.path} cannot be removed ({error.strerror or error})") from error
        if not item.path.exists():
            gone.append(item)
    return gone


def _delete(root: Path, path: Path) -> None:
    """Move the path out of its place in one step, then delete it: readers find all of it or nothing."""
    above = path.parent
    straight = above.is_relative_to(root) and above.resolve() == root.resolve() / above.relative_to(root)
    if straight and not path.is_symlink():  # no link is on the way; one may be newer than the listing
        with scratch.folder("prune", root) as folder, suppress(FileNotFoundError):
            Below(root).rename(path, folder / path.name)
