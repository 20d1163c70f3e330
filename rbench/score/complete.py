"""Check that a record has the numbers that tables show."""

from __future__ import annotations

from rbench.errors import StoreError
from rbench.score.advsts import Deviations
from rbench.score.attack import Tally
from rbench.spec import Record


def lacking(record: Record) -> str | None:
    """Return why a complete record of an attack cannot enter a table, or None if it can, or if it is of another job.

    The reason is a number that it lacks, or numbers that contradict each other.
    """
    return _untallied(record) if record.status == "complete" and record.job.attacking is not None else None


def _untallied(record: Record) -> str | None:
    impossible = f"the numbers in the record of {record.job.name} are impossible."
    if min(record.counts.values(), default=0) < 0:
        return impossible
    try:
        tally = Tally.of_record(record)
        tally.scores()
        if record.job.attacking is not None and record.job.attacking.task.kind == "sts":
            Deviations.of_record(record).scores()
    except StoreError as error:
        return str(error)
    except (ValueError, ArithmeticError, TypeError):
        return impossible
    n = tally.total + tally.errored + tally.wordless + tally.unusable
    if record.outcomes is not None and record.outcomes.n != n:
        return f"the record of {record.job.name} counts {n} examples, but its file has {record.outcomes.n} outcomes."
    return None
