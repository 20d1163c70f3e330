"""Read and replace files so that a crash leaves no file half written, and every change is noticed.

A line of outcomes.jsonl names its job and carries a checksum. A record's digest tells whether the file is as it was
written. If it is not, the checksums tell which lines still are.

A record and a plan end with a checksum of their bytes:

    {
     "job": ...,
     "check": "0123456789abcdef"
    }

It is the first 16 hex digits of the sha256 of all bytes before its line. It covers bytes, not values, because some
changes of bytes keep what JSON says, and would go on unnoticed into copies. The file stays plain JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic_core import ValidationError, from_json, to_json

from rbench.errors import StoreError
from rbench.schema import Digest, Job, Outcome
from rbench.store.runs.outcomes import read_line
from rbench.system.below import WHOLE_BYTES, SafeFolder

UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.tmp$")
"""The end of the name of a file that is being written. If its process is killed, the file stays."""
_OBJECT_END = b"\n}"


@contextmanager
def as_store_error(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a StoreError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: Path, below: SafeFolder | None = None, most: int = WHOLE_BYTES, *, lined: bool = False) -> bytes | None:
    """Return the content of a file of at most so many bytes, or None if there is no file.

    Args:
        below: the folder below which no link is followed; None: the file's own folder, where the user named the file.
        lined: whether it is a file of lines, of any size.

    Raises:
        StoreError: it cannot be read, is larger, or is no regular file.
    """
    below = below or SafeFolder(path.parent)
    try:
        return below.read_lined(path) if lined else below.read(path, most)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        file = next((folder for folder in path.parents if folder.is_file()), path.parent)
        raise StoreError(f"{file} is a file. Name the folder that `rbench run` wrote.") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from error


def write(path: Path, content: bytes, below: SafeFolder | None = None) -> None:
    """Replace the file in one step: after a crash it holds the old content or the new content, never a part.

    Args:
        below: as for `read`.
    """
    with as_store_error(path):
        (below or SafeFolder(path.parent)).replace(path, content, sync=True)


def first_unused(path: Path) -> Path:
    """Return `path`, or the first of `path-2`, `path-3` ... if it exists."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def path_beside(path: Path, name: str) -> Path:
    """Return the path of a file or folder beside another one, which may be the current folder."""
    return (path if path.name not in ("", "..") else path.resolve()).with_name(name)


def make_folder_of(file: Path) -> None:
    """Make the folder that the file is to stand in, with those above it."""
    file.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def grow_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder beside a new one. It becomes `folder` at the end, and is removed if anything goes wrong.

    Raises StoreError if `folder` cannot be made, for instance because it is there and not empty.
    """
    with as_store_error(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = first_unused(path_beside(folder, f".{folder.resolve().name}.unfinished"))
    try:
        yield unfinished
        with as_store_error(folder):
            unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def cut_torn_line(handle: int, block: int = 65536) -> None:
    """Cut a file after its last newline, reading backwards from its end."""
    end = size = os.fstat(handle).st_size
    while end:
        start = max(0, end - block)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)


# --------------------------------------------------------------------------------------------------------- checksums


@dataclass(frozen=True)
class StoredLine:
    """One complete line as it was found. An unreliable line has a `problem` and no outcome."""

    number: int
    """The line number, from 1."""
    outcome: Outcome | None
    problem: str | None = None
    other_job: bool = False
    """Whether the line is sound but belongs to another job."""


def write_line(job: Job, outcome: Outcome) -> bytes:
    """Return a line with its checksum, without a newline."""
    return outcome_line(job.key, from_json(outcome.model_dump_json()))


def outcome_line(key: str, outcome: Mapping[str, Any]) -> bytes:
    """Return the line of an outcome, as its JSON has it, of the job with this key."""
    return to_json({"job": key, "check": hash_outcome(key, outcome), "outcome": outcome})


def read_lines(content: bytes, job: Job) -> Iterator[StoredLine]:
    """Yield the lines of a job's file. An incomplete last line is left out."""
    for number, raw in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            line_json = parse_json(raw)
            line = read_line(raw)
            outcome = line.model
        except ValueError as error:
            yield StoredLine(number, None, first_error(error))
            continue
        if line.check != hash_outcome(line.job, line_json["outcome"]):
            yield StoredLine(number, None, "it was changed after it was written")
        elif line.job != job.key:
            yield StoredLine(number, None, f"it belongs to another job, with the key {line.job[:16]}", other_job=True)
        else:
            yield StoredLine(number, outcome)


def make_digest(content: bytes, n: int, *, texts: bool) -> Digest:
    """Return the digest of a file of `n` lines."""
    return Digest(n=n, sha256=sha256(content).hexdigest(), texts=texts)


def parse_json(content: bytes) -> Any:
    """Return what JSON says. Raises ValueError where it is none, or an object has a key twice.

    Of two values of a key readers take either, so such a file would say one thing to rbench and another to others.
    """
    value = from_json(content)
    # What rbench writes gives back the same bytes, which shows at once that no key was lost.
    if to_json(value) != content and to_json(value, indent=1) != content.rstrip(b"\n"):
        json.loads(content, object_pairs_hook=_check_distinct)
    return value


def _check_distinct(pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the key {name[:60]!r} is there twice")
        names.add(name)


def first_error(error: Exception) -> str:
    """Return the first problem in a few words, without the content that has it."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}".removeprefix(": ")
    return str(error)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
"""Writes the text that is hashed. `json.dumps` would make an encoder for each outcome."""


def hash_outcome(key: str, outcome: Any) -> str:
    """Hash the outcome as the JSON that was written, so that old lines stay valid when outcomes get a new field."""
    return sha256(_CANONICAL.encode([key, outcome]).encode()).hexdigest()[:16]


def seal(text: str) -> bytes:
    """Return the content of a file: a JSON object with its checksum as the last member.

    Args:
        text: the object, not empty, over several lines as `model_dump_json(indent=1)` writes it.
    """
    body = text.encode().removesuffix(_OBJECT_END)
    return body + _seal_ending(body)


def unseal(content: bytes) -> bytes:
    """Return the JSON object without its checksum.

    Raises ValueError where the checksum is not that of the content, or an object has a key twice.
    """
    # Every ending has the same length, whatever the body.
    body = content[: -len(_seal_ending(b""))]
    if content[len(body) :] != _seal_ending(body):
        raise ValueError("its checksum is not that of its content")
    parse_json(body + _OBJECT_END)
    return body + _OBJECT_END


def _seal_ending(body: bytes) -> bytes:
    return f',\n "check": "{sha256(body).hexdigest()[:16]}"\n}}\n'.encode()
