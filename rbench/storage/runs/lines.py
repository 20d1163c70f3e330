"""Lines of outcomes.jsonl: each names its job and carries a checksum, so that a changed line is told from a sound one.

A record's digest says whether the file is what was written; where it is not, the checksums say which lines still are.
Lines of before there were checksums have none. They are taken as they are, unless a digest contradicts the file or a
line with a checksum stands above them: then nothing vouches for them.
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


class _Line(Strict):
    """One line of outcomes.jsonl."""

    job: str
    outcome: Outcome
    check: str | None = None
    """Of the job's key and the outcome, 16 hex digits."""


@dataclass(frozen=True)
class Line:
    """One whole line as it was found. One that cannot be relied upon has no outcome but a `problem`."""

    number: int
    """From 1."""
    raw: bytes
    outcome: Outcome | None
    problem: str | None = None
    other_job: bool = False
    """It is sound, but belongs to another job."""


def write_line(job: Job, outcome: Outcome) -> bytes:
    """A line with its checksum, without a newline."""
    text = outcome.model_dump_json()
    check = _checksum(job.key, from_json(text))
    return f'{{"job":{json.dumps(job.key)},"check":"{check}","outcome":{text}}}'.encode()


def read_lines(content: bytes, job: Job, *, contradicted: bool = False) -> Iterator[Line]:
    """The lines of a job's file; a torn last one is left out.

    `contradicted`: a record says that the file is not what was written.
    """
    checksums = contradicted
    for number, raw in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            found = from_json(raw)
            line = _Line.model_validate(found)
        except ValueError as error:
            yield Line(number, raw, None, first_error(error))
            continue
        if line.check is None and checksums:
            yield Line(number, raw, None, "it has no checksum")
        elif line.check not in (None, _checksum(line.job, found["outcome"])):
            yield Line(number, raw, None, "it was changed after it was written")
        elif line.job != job.key:
            yield Line(number, raw, None, f"it belongs to another job, with the key {line.job[:16]}", other_job=True)
        else:
            yield Line(number, raw, line.outcome)
        checksums = checksums or line.check is not None


def digest(content: bytes, n: int, *, texts: bool) -> Digest:
    """The digest of a file of `n` lines."""
    return Digest(n=n, sha256=sha256(content).hexdigest(), texts=texts)


def first_error(error: Exception) -> str:
    """The first thing that is wrong, in few words and without the content in which it is."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}".removeprefix(": ")
    return str(error)


def _checksum(key: str, outcome: Any) -> str:
    """Of the outcome's content as JSON, so that a field that is added to outcomes later leaves old lines sound."""
    text = json.dumps([key, outcome], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]
