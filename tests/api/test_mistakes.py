"""Names and places that lead nowhere, in a call from Python, are an RbenchError. Wrong types are Python's errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rbench
from rbench import api
from rbench.errors import JobError, RbenchError
from rbench.schema import Provenance, Record
from tests.cli.conftest import attack_job

WRONG = ["nowhere/x", Path("nowhere")]
SUITE = {"encoders": ["mini-bert-packaged"], "tasks": ["mini-sentiment"], "attacks": ["nope"], "num_examples": 2}
RUNS: dict[str, Callable[[Any], object]] = {
    "table": rbench.table,
    "load_results": rbench.load_results,
    "claims": rbench.claims,
    "compare": lambda run: rbench.compare(run, between=("a", "b")),
    "figure": lambda run: rbench.figure(run, "queries"),
    "write_textattack_csv": lambda run: rbench.write_textattack_csv(run, "log.csv"),
    "status": api.status,
    "verify": api.verify,
    "merge": lambda run: api.merge(run, "merged"),
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def named(value: object) -> str:
    """Return a name that is the same in each process, as xdist asks for: some values show their address."""
    return type(value).__name__ if " at 0x" in repr(value) else repr(value)


@pytest.mark.parametrize("wrong", WRONG, ids=named)
@pytest.mark.parametrize("name", RUNS)
def test_what_is_no_run(name: str, wrong: object) -> None:
    with pytest.raises(RbenchError):
        RUNS[name](wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=named)
def test_what_is_no_suite(wrong: Any) -> None:
    with pytest.raises(RbenchError):
        rbench.run(wrong, progress=False)


def test_a_run_in_which_all_failed_has_no_frames(tmp_path: Path) -> None:
    failed = Record(job=attack_job(0), status="failed", provenance=Provenance(rbench="0"), error="ValueError: x")
    result = api.RunResult(tmp_path, 0, failed=[failed, failed])
    for frame in ("summary", "frame"):
        with pytest.raises(JobError) as caught:
            getattr(result, frame)
        assert "ValueError: x" in str(caught.value)
    assert "failed: attack/" in repr(result) and "ValueError: x" in result._repr_html_()
