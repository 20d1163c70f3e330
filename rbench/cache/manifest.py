"""Which files a cache entry consists of, and what is in them.

    manifest.json   {"files": {"config.json": "<sha256>", "record.json": "<sha256>", "tokenizer.json": ...}}

It is written last, before the entry is moved to its place, and names every file but itself.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from rbench.spec import Strict

NAME = "manifest.json"
UNLISTED = f"it has no list of its files ({NAME}), as entries of earlier versions, so nothing can vouch for them"

_SETTLED = 2_000_000_000
"""Nanoseconds: a file that was changed less long ago may change again without a trace in its times."""

Identity = tuple[int, int, int, int, int]
_known: dict[tuple[tuple[str, Identity], ...], str] = {}


class Manifest(Strict):
    """The files of an entry, by their paths in it, with the sha256 of what is in them."""

    files: dict[str, str]


def write(folder: Path) -> None:
    """List the files that `folder` holds now."""
    files = {name: file_hash(folder / name) for name in sorted(_names(folder))}
    (folder / NAME).write_text(Manifest(files=files).model_dump_json(indent=1) + "\n", encoding="utf-8")


def problem(folder: Path) -> str | None:
    """What is wrong with the files in `folder`, as the end of a sentence; None where they are those of its manifest.

    Cheap where it was asked before: contents are read again only of files that changed since.
    """
    try:
        listed = Manifest.model_validate_json((folder / NAME).read_bytes()).files
        found = set(_names(folder)) - {NAME}
        if missing := sorted(listed.keys() - found):
            return f"{_some(missing)} is missing"
        if surplus := sorted(found - listed.keys()):
            return f"{_some(surplus)} was added"
        if altered := [name for name, digest in listed.items() if file_hash(folder / name) != digest]:
            return f"{_some(altered)} was altered"
    except FileNotFoundError as error:
        return UNLISTED if error.filename == str(folder / NAME) else f"{error.filename} is missing"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    except ValidationError:
        return f"{NAME} is damaged"
    return None


def file_hash(file: Path) -> str:
    """sha256 of what is in a file, remembered as long as the file is the same."""
    return _hash(file.parent, (file.name,), with_names=False)


def weights_hash(folder: Path) -> str:
    """sha256 over the names and contents of the safetensors files in `folder` and below.

    It says which weights were used, in records; whether an entry is whole says its manifest.
    """
    files = sorted(folder.rglob("*.safetensors"))
    return _hash(folder, tuple(file.relative_to(folder).as_posix() for file in files), with_names=True)


def _hash(folder: Path, names: tuple[str, ...], *, with_names: bool) -> str:
    before = tuple((name if with_names else "", _identity(folder / name)) for name in names)
    if (known := _known.get(before)) is not None:
        return known
    digest = hashlib.sha256()
    for name in names:
        if with_names:
            digest.update(name.encode())
        with (folder / name).open("rb") as handle:
            while chunk := handle.read(1 << 20):
                digest.update(chunk)
    found = digest.hexdigest()
    after = tuple((name if with_names else "", _identity(folder / name)) for name in names)
    if before == after and all(_is_settled(identity) for _, identity in before):
        _known[before] = found
    return found


def _identity(file: Path) -> Identity:
    """Which file it is, and in which state: device, inode, size, mtime_ns, ctime_ns."""
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe, say, at which a reader would wait for ever
        raise OSError(0, "no regular file", str(file))
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_settled(identity: Identity) -> bool:
    return max(identity[3:]) < time.time_ns() - _SETTLED


def _names(folder: Path, above: str = "") -> Iterator[str]:
    """Paths of all that lies in a folder and is no folder itself; a link to one counts as a file."""
    with os.scandir(folder) as found:
        for one in found:
            if one.is_dir(follow_symlinks=False):
                yield from _names(Path(one.path), f"{above}{one.name}/")
            else:
                yield f"{above}{one.name}"


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"
