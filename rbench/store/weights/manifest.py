"""Write and check the manifest of a cache entry: its files and their hashes.

    manifest.json   {"files": {"config.json": "<sha256>", "record.json": "<sha256>", "tokenizer.json": ...}}

The manifest lists every file of the entry except itself. It is written last, before the entry is moved to its place.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from rbench.errors import StoreError
from rbench.schema import Strict
from rbench.system import digests
from rbench.system.below import SMALL, Below, Kind

NAME = "manifest.json"
UNLISTED = f"it has no list of its files ({NAME}), so they cannot be checked"


class Manifest(Strict):
    """The sha256 of each file of an entry, by its path in the entry."""

    files: dict[str, str]


def write(folder: Path) -> None:
    """Write the manifest of the files that are in `folder` now."""
    below = Below(folder)
    files = {name: digests.of_file(folder / name) for name in sorted(_kinds(folder, below))}
    below.replace(folder / NAME, f"{Manifest(files=files).model_dump_json(indent=1)}\n".encode())


def problem(folder: Path, below: Below | None = None) -> str | None:
    """Say what is wrong with the files in `folder`, as the end of a sentence; None if they match its manifest.

    All of them are regular files then, and none is reached through a link below the folder of `below`.

    A repeated check is cheap: only files that changed since the last one are read.
    """
    try:
        below = below or Below(folder)
        listed = Manifest.model_validate_json(below.read(folder / NAME, SMALL)).files
        kinds = _kinds(folder, below)
        found = kinds.keys() - {NAME}
        if missing := sorted(listed.keys() - found):
            return f"{_some(missing)} is missing"
        if surplus := sorted(found - listed.keys()):
            return f"{_some(surplus)} was added"
        if foreign := sorted(name for name, kind in kinds.items() if kind != "file"):
            return f"{_some(foreign)} is a {kinds[foreign[0]]}"
        if altered := [name for name, digest in listed.items() if digests.of_file(folder / name) != digest]:
            return f"{_some(altered)} was altered"
    except FileNotFoundError as error:
        return UNLISTED if Path(error.filename).name == NAME else f"{error.filename} is missing"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    except StoreError as error:
        return str(error).removesuffix(".")
    except ValidationError:
        return f"{NAME} is damaged"
    return None


def weights_hash(folder: Path) -> str:
    """Compute the sha256 over the names and contents of the safetensors files in `folder` and below.

    Records use it to say which weights were used. The manifest, not this hash, says whether an entry is complete.
    """
    files = sorted(path for path in Below(folder).files(folder) if path.suffix == ".safetensors")
    names = [file.relative_to(folder).as_posix() for file in files]

    def read() -> str:
        digest = hashlib.sha256()
        for name, file in zip(names, files, strict=True):
            digest.update(name.encode())
            with file.open("rb") as handle:
                while chunk := handle.read(1 << 20):
                    digest.update(chunk)
        return digest.hexdigest()

    return digests.remembered(files, f"weights {names}", read)


def _kinds(folder: Path, below: Below) -> dict[str, Kind]:
    """Return the paths of all files in a folder and below, each with what it is. A link counts as a file."""
    return {path.relative_to(folder).as_posix(): kind for path, kind in below.walk(folder)}


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"
