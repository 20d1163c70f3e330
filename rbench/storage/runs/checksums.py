"""Checksums of what a RUN stores, so that every change is noticed: of each line of outcomes.jsonl, and of JSON files.

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
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from rbench.spec import Digest, Job, Outcome, Strict

_OPEN = b"\n}"


class _Line(Strict):
    """One line of outcomes.jsonl."""

    job: str
    outcome: Outcome
    check: str
    """The checksum over the job's key and the outcome, 16 hex digits."""


@dataclass(frozen=True)
class Line:
    """One complete line as it was found. An unreliable line has a `problem` and no outcome."""

    number: int
    """The line number, from 1."""
    outcome: Outcome | None
    problem: str | None = None
    other_job: bool = False
    """Whether the line is sound but belongs to another job."""


def write_line(job: Job, outcome: Outcome) -> bytes:
    """Return a line with its checksum, without a newline."""
    text = outcome.model_dump_json()
    check = checksum(job.key, from_json(text))
    return f'{{"job":{json.dumps(job.key)},"check":"{check}","outcome":{text}}}'.encode()


def read_lines(content: bytes, job: Job) -> Iterator[Line]:
    """Yield the lines of a job's file. An incomplete last line is left out."""
    for number, raw in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            found = from_json(raw)
            line = _Line.model_validate(found)
        except ValueError as error:
            yield Line(number, None, first_error(error))
            continue
        if line.check != checksum(line.job, found["outcome"]):
            yield Line(number, None, "it was changed after it was written")
        elif line.job != job.key:
            yield Line(number, None, f"it belongs to another job, with the key {line.job[:16]}", other_job=True)
        else:
            yield Line(number, line.outcome)


def digest(content: bytes, n: int, *, texts: bool) -> Digest:
    """Return the digest of a file of `n` lines."""
    return Digest(n=n, sha256=sha256(content).hexdigest(), texts=texts)


def first_error(error: Exception) -> str:
    """Return the first problem in a few words, without the content that has it."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}".removeprefix(": ")
    return str(error)


def checksum(key: str, outcome: Any) -> str:
    """Hash the outcome as the JSON that was written, so that old lines stay valid when outcomes get a new field."""
    text = json.dumps([key, outcome], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def seal(text: str) -> bytes:
    """Return the content of a file: a JSON object with its checksum as the last member.

    Args:
        text: the object, not empty, over several lines as `model_dump_json(indent=1)` writes it.
    """
    body = text.encode().removesuffix(_OPEN)
    return body + _end(body)


def unseal(content: bytes) -> bytes:
    """Return the JSON object without its checksum. Raises ValueError where the checksum is not that of the content."""
    body = content[: -len(_end(b""))]
    if content[len(body) :] != _end(body):
        raise ValueError("its checksum is not that of its content")
    return body + _OPEN


def _end(body: bytes) -> bytes:
    return f',\n "check": "{sha256(body).hexdigest()[:16]}"\n}}\n'.encode()
