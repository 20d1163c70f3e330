"""What lies in the cache: entries of weights, checkpoints, what was prepared, and what killed processes left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from rbench.errors import ResourceError
from rbench.spec import Record
from rbench.storage.weights import leftovers, manifest
from rbench.storage.weights.cache import RECORD, WeightCache
from rbench.system import scratch

Kind = Literal[
    "encoder", "victim", "damaged", "checkpoints", "edits", "translations", "rows", "back-ends", "in work", "left"
]
KINDS: tuple[Kind, ...] = get_args(Kind)

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Item:
    """One thing in the cache that is kept or removed as a whole."""

    kind: Kind
    """encoder, victim: weights that a job made. damaged: weights without a record that can be read. checkpoints: of a
    training under way or killed. edits, translations: prepared corpora. rows: of the embedded world. back-ends: the
    fastest on this machine. in work: the folder of a living process. left: that of a killed one."""
    name: str
    """Whose it is: the job that made it, or the encoder in training; else what the file or folder is called."""
    path: Path
    size: int
    """Bytes."""
    used: float
    """When weights were last made or asked for, and anything else last written; seconds since the epoch."""
    key: str | None = None
    """The job's, where a job made it."""
    in_use: bool = False
    """Whether a living process makes it, removes it, or runs jobs that need it."""
    listed: bool = True
    """Whether its files are listed, so that they can be checked; entries of earlier versions have no list."""
    why: str = ""
    """Why nobody has any use of it, in words, where that was found."""


def items(root: Path) -> list[Item]:
    """Everything in the cache folder `root` that rbench put there, by kind and name; links are left out.

    Nothing is hashed. Raises ResourceError where `root` is no folder or cannot be read.
    """
    cache = WeightCache(root)
    try:
        if not root.exists():
            return []
        if not root.is_dir():
            raise ResourceError(f"the cache folder {root} is no folder; RBENCH_CACHE=DIR names another")
        needed = cache.in_use()
        found = [*_weights(cache, needed), *_checkpoints(cache, needed), *_prepared(root, bool(needed)), *_work(root)]
        if (file := root / "backends.json").is_file():
            found.append(_item("back-ends", file.name, file))
        return sorted(found, key=lambda item: (KINDS.index(item.kind), item.name, str(item.path)))
    except OSError as error:
        raise ResourceError(
            f"the cache folder {root} cannot be read ({error.strerror}: {error.filename}); "
            "RBENCH_CACHE=DIR names another"
        ) from error


def _weights(cache: WeightCache, needed: set[str]) -> Iterator[Item]:
    for above in _folders(cache.root / "weights"):
        for place in _folders(above):
            if _KEY.fullmatch(place.name) and place.name.startswith(above.name):
                key, kind, name = place.name, "damaged", "unknown"
                with suppress(OSError, ValidationError):
                    job = Record.model_validate_json((place / RECORD).read_bytes()).job
                    kind, name = ("encoder" if job.stage == "pretrain" else "victim"), job.name
                yield _item(
                    kind,  # type: ignore[arg-type]
                    name,
                    place,
                    used=place.stat().st_mtime,
                    key=key,
                    in_use=key in needed or scratch.is_held(cache.lock_file(key)),
                    listed=(place / manifest.NAME).is_file(),
                )


def _checkpoints(cache: WeightCache, needed: set[str]) -> Iterator[Item]:
    for place in _folders(cache.root / "checkpoints"):
        if _KEY.fullmatch(key := place.name):
            name = "unknown"
            with suppress(OSError, ValueError, TypeError, KeyError):
                name = f"pretrain/{json.loads((place / 'run.json').read_text(encoding='utf-8'))['encoder']}"
            in_use = key in needed or scratch.is_held(cache.lock_file(key))
            yield _item("checkpoints", name, place, key=key, in_use=in_use)


def _prepared(root: Path, in_use: bool) -> Iterator[Item]:
    """No lock says who reads these, so all are in use while any run is under way."""
    prepared = root / "prepared"
    kinds: tuple[tuple[Kind, str], ...] = (("edits", "edits-*.jsonl"), ("rows", "mini-*.json"))
    for kind, pattern in kinds:
        for file in sorted(prepared.glob(pattern)):
            if file.is_file() and not file.is_symlink():
                yield _item(kind, file.name, file, in_use=in_use)
    for place in _folders(prepared / "translations"):
        yield _item("translations", place.name[:16], place, in_use=in_use)


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
    listed: bool = True,
) -> Item:
    used = leftovers.last_written(path) if used is None else used
    return Item(kind, name, path, _size(path), used, key, in_use, listed)


def _folders(parent: Path) -> list[Path]:
    """Folders in a folder, links and hidden ones left out; none where there is no such folder."""
    if parent.is_symlink() or not parent.is_dir():
        return []
    found = (path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    return sorted(path for path in found if not path.name.startswith("."))


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder and below."""
    if not path.is_dir():
        return path.lstat().st_size
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # it goes while we look
            total += 0 if file.is_dir() and not file.is_symlink() else file.lstat().st_size
    return total
