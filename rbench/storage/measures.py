"""Ask a measure's file what it says of the records of its jobs."""

from __future__ import annotations

import functools
from types import ModuleType

from rbench.errors import RbenchError
from rbench.load.code import find
from rbench.score import lacking as lacking_of_attack
from rbench.spec import MeasureJob, Record


def measure_of(spec: MeasureJob) -> ModuleType | None:
    """Return the module of one of rbench's measures, or None for that of a user, whose folder is not known."""
    return None if spec.source else _opened(spec.what.name)


@functools.cache
def _opened(name: str) -> ModuleType | None:
    try:
        return find("measures", name).open()
    except RbenchError:
        return None


def lacking(record: Record) -> str | None:
    """Return why a complete record of an attack or a measure cannot enter a table, or None if it can.

    The reason is a number that it lacks, or numbers that contradict each other.
    """
    if record.job.measuring is None or record.status != "complete":
        return lacking_of_attack(record)
    there = {score.name for score in record.scores}
    wanted: tuple[str, ...] = getattr(measure_of(record.job.measuring), "REQUIRED", ())
    name = next((name for name in wanted if name not in there), None)
    return None if name is None else f"the record of {record.job.name} has no {name}."
