"""Read a few fields of each outcome of a job, many times faster than whole outcomes.

Tables and measures look at all outcomes of a RUN for some numbers of each. A file that has the digest in its record is
as it was written, so its lines need not be checked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from rbench.errors import StoreError
from rbench.spec import Job, Outcome, Record
from rbench.storage.runs.lines import digest
from rbench.storage.runs.reader import Reader


def read_fields(store: Reader, job: Job, record: Record, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return these fields of each outcome of a job, in the order in which the outcomes happened.

    Args:
        record: the job's complete record.
        names: names of fields of `Outcome`. A field that is younger than the file has its default. Values are those of
            JSON: a text is a list of columns.

    Raises:
        StoreError: the outcomes are missing, damaged, or not as many as the record counts.
    """
    path = store.folder(job) / "outcomes.jsonl"
    content = store.content(job)
    remedy = "Run the suite again, or take outcomes.jsonl from where the RUN was copied from."
    if content is None:
        raise StoreError(f"{path} is missing. {remedy}")
    stated = record.outcomes
    if stated is None or digest(content, stated.n, texts=stated.texts) != stated:
        raise StoreError(f"{path} does not match the record beside it. {remedy}")
    defaults = [(name, Outcome.model_fields[name].default) for name in names]
    lines = (from_json(line, cache_strings="keys")["outcome"] for line in content.split(b"\n")[:-1])
    values = [tuple([line.get(name, default) for name, default in defaults]) for line in lines]
    counted = sum(record.counts.get(name, 0) for name in ("succeeded", "failed", "skipped", "errored", "wordless"))
    if len(values) != counted:
        raise StoreError(f"{path} has {len(values)} outcomes, and the record beside it counts {counted}. {remedy}")
    return values
