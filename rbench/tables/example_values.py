"""Reads what each attacked example adds to a metric, from the outcomes of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rbench.score import Verdicts
from rbench.spec import AttackMetric, Job, Outcome, Record
from rbench.storage.runs import Reader, read_fields


class Results(Protocol):
    """What is read of `tables.aggregate.Results`, which imports this module."""

    @property
    def store(self) -> Reader: ...

    def verdicts(self, job: Job) -> Verdicts: ...


class Run(Protocol):
    """What is read of `tables.aggregate.Run`."""

    @property
    def job(self) -> Job: ...

    @property
    def record(self) -> Record | None: ...

    @property
    def others(self) -> tuple[Job, ...]: ...

    @property
    def jobs(self) -> tuple[Job, ...]: ...


Values = dict[str, float]
"""By example; those that are in no denominator of the metric are left out."""

_NUMBERS = ("num_queries", "perturbed_share", "seconds", "label", "oracle_label")
_FIELDS = ("example_id", "status", "skip_reason", *_NUMBERS)
_ATTACKED = ("succeeded", "failed")


def example_values(results: Results, run: Run, metric: AttackMetric) -> Values | None:
    """Return the values whose mean is the metric, of an attack job that is complete; None where the RUN keeps none.

    Raises StoreError where outcomes are damaged.
    """
    assert run.record is not None
    if run.record.outcomes is None and results.store.content(run.job) is None:
        return None
    rows = read_fields(results.store, run.job, run.record, _FIELDS)
    value_of = _VALUES[metric]
    found = {}
    for example, status, reason, *numbers in rows:
        value = None if status == "errored" or reason is not None else value_of(status, *numbers)
        if value is not None:
            found[example] = value
    return found


def value_of(outcome: Outcome, metric: AttackMetric) -> float | None:
    """Return an example's value of a metric; None where the example is in no denominator of it."""
    if outcome.status == "errored" or outcome.skip_reason is not None:
        return None
    return _VALUES[metric](outcome.status, *(getattr(outcome, name) for name in _NUMBERS))


def _among_attacked(value: Callable[..., float]) -> Callable[..., float | None]:
    """Leave out the examples that the victim got wrong, which were not attacked."""
    return lambda status, *numbers: float(value(status, *numbers)) if status in _ATTACKED else None


_VALUES: dict[AttackMetric, Callable[..., float | None]] = {
    "asr": _among_attacked(lambda status, *_: status == "succeeded"),
    "oracle_asr": _among_attacked(lambda status, *numbers: status == "succeeded" and numbers[3] == numbers[4]),
    "queries": _among_attacked(lambda _status, queries, *_rest: queries),
    "seconds": _among_attacked(lambda _status, _queries, _share, seconds, *_rest: seconds),
    "aua": lambda status, *_: float(status == "failed"),
    "clean": lambda status, *_: float(status != "skipped"),
    "perturbed": lambda status, _queries, share, *_: share if status == "succeeded" and share else None,
}
