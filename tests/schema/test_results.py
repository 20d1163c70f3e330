"""Tests of what a record says of its job."""

from __future__ import annotations

import pytest

from rbench.plan.planner import make_plan
from rbench.schema import Provenance, Record
from tests.plan.builders import make_inputs, make_suite


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "no error was recorded"),
        ("  \n", "no error was recorded"),
        ("ValueError: it is odd", "ValueError: it is odd"),
        ("Traceback (most recent call last):\n  File x\nValueError: it is odd\n\n", "ValueError: it is odd"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_line_of_its_error(error: str | None, reason: str) -> None:
    job = make_plan(make_suite(encoders=["lm"]), make_inputs()).jobs[0]
    record = Record(job=job, status="failed", error=error, provenance=Provenance(rbench="0"))
    assert record.reason == reason
