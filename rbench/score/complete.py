"""Check that a record has the numbers that tables show."""

from __future__ import annotations

from rbench.errors import StoreError
from rbench.score.adversarial import SET_SCORES
from rbench.score.advsts import Deviations
from rbench.score.attack import Tally
from rbench.score.contrast import SCORES
from rbench.spec import AdversarialJob, AttackJob, ContrastJob, EvaluateJob, Record

CORRELATIONS = ("spearman", "pearson")


def lacking(record: Record) -> str | None:
    """Return why a complete record of an attack or evaluation cannot enter a table, or None if it can.

    The reason is a number that it lacks, or numbers that contradict each other.
    """
    spec = record.job.spec
    if record.status != "complete":
        return None
    if isinstance(spec, AttackJob):
        return _untallied(record)
    kinds = {ContrastJob: SCORES, AdversarialJob: SET_SCORES, EvaluateJob: CORRELATIONS}
    wanted = kinds.get(type(spec), ())
    there = {score.name for score in record.scores}
    name = next((name for name in wanted if name not in there), None)
    return None if name is None else f"the record of {record.job.name} has no {name}."


def _untallied(record: Record) -> str | None:
    impossible = f"the numbers in the record of {record.job.name} are impossible."
    if min(record.counts.values(), default=0) < 0:
        return impossible
    try:
        tally = Tally.of_record(record)
        tally.scores()
        if isinstance(record.job.spec, AttackJob) and record.job.spec.task.kind == "sts":
            Deviations.of_record(record).scores()
    except StoreError as error:
        return str(error)
    except (ValueError, ArithmeticError, TypeError):
        return impossible
    n = tally.total + tally.errored + tally.wordless + tally.unusable
    if record.outcomes is not None and record.outcomes.n != n:
        return f"the record of {record.job.name} counts {n} examples, but its file has {record.outcomes.n} outcomes."
    return None
