"""List what is in the cache: weights, checkpoints, prepared data, and what killed processes left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from rbench.errors import ResourceError, StoreError
from rbench.spec import Record
from rbench.storage.weights import leftovers
from rbench.storage.weights.cache import RECORD, WeightCache
from rbench.system import scratch
from rbench.system.below import SMALL, Below

Prepared = Literal["edits", "translations", "rows", "words", "merged", "back-ends"]
Kind = Literal["encoder", "victim", "damaged", "checkpoints", Prepared, "in work", "left"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Item:
    """One thing in the cache that is kept or removed as a whole."""

    kind: Kind
    """encoder, victim: weights that a job made. damaged: weights whose record cannot be read. checkpoints: those of a
    running or killed training. edits, translations: prepared corpora. rows: data of the embedded world. words: by which
    jieba divides Chinese texts. merged: an adapter (PEFT) in its base. back-ends: the fastest one on this machine, and
    how fast that is. in work: the folder of a running process. left: the folder of a killed process."""
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
                key, kind, name = place.name, "damaged", "unknown"
                with suppress(OSError, StoreError, ValidationError):
                    job = Record.model_validate_json(below.read(place / RECORD, SMALL)).job
                    kind, name = ("encoder" if job.stage == "pretrain" else "victim"), job.name
                yield _item(
                    kind,  # type: ignore[arg-type]
                    name,
                    place,
                    used=place.stat().st_mtime,
                    key=key,
                    in_use=key in needed or scratch.is_held(cache.lock_file(key)),
                )


def _checkpoints(cache: WeightCache, needed: set[str]) -> Iterator[Item]:
    for place in _folders(cache.root / "checkpoints"):
        if _KEY.fullmatch(key := place.name):
            name = "unknown"
            with suppress(OSError, StoreError, ValueError, TypeError, KeyError, RecursionError):
                name = str(json.loads(Below(cache.root).read(place / "run.json", SMALL))["name"])
            in_use = key in needed or scratch.is_held(cache.lock_file(key))
            yield _item("checkpoints", name, place, key=key, in_use=in_use)


def _prepared(root: Path, in_use: bool) -> Iterator[Item]:
    """List prepared data. No lock says who reads them, so all count as in use while any run needs weights."""
    prepared = root / "prepared"
    kinds: tuple[tuple[Kind, str], ...] = (("edits", "edits-*.jsonl"), ("rows", "mini-*.json"), ("words", "words/*"))
    for kind, pattern in kinds:
        for file in sorted(prepared.glob(pattern)):
            if file.is_file() and not file.is_symlink():
                yield _item(kind, file.name, file, in_use=in_use)
    for place in _folders(prepared / "translations"):
        yield _item("translations", place.name[:16], place, in_use=in_use)
    for place in _folders(root / "merged"):
        if _KEY.fullmatch(place.name):
            yield _item("merged", place.name[:16], place, in_use=in_use)


def _work(root: Path) -> Iterator[Item]:
    for place in leftovers.left(root):
        yield _item("left", place.name, place)
    for file in scratch.locks(root):
        place = scratch.folder_of(file)
        if scratch.is_held(file) and place.is_dir() and not place.is_symlink():
            yield _item("in work", place.name, place, in_use=True)


def _item(
    kind: Kind,
    name: str,
    path: Path,
    *,
    used: float | None = None,
    key: str | None = None,
    in_use: bool = False,
) -> Item:
    used = leftovers.last_written(path) if used is None else used
    return Item(kind, name, path, _size(path), used, key, in_use)


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
