"""Whatever a call from Python gets wrong, the answer is an RbenchError, and no exception of Python or a library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rbench
from rbench import api
from rbench.errors import JobError, RbenchError
from rbench.execution.given import read
from rbench.schema import Provenance, Record
from tests.cli.conftest import attack_job

WRONG = [None, 5, True, 0.5, b"x", [], ["x"], {}, [5], "", "nowhere/x", "\0", Path("nowhere"), object()]
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
OPTIONS = [name for name in inspect.signature(rbench.Options).parameters if name not in ("fresh", "texts")]


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
def test_what_is_no_suite_encoder_or_executor(wrong: object) -> None:
    for call in (
        lambda: rbench.run(wrong, progress=False),
        lambda: rbench.run(SUITE, wrong, progress=False),
        lambda: rbench.run(SUITE, executor=wrong, progress=False),
        lambda: rbench.load_encoder(wrong),
        lambda: next(api.attack("mini-bert-packaged", wrong, "pwws")),  # type: ignore[arg-type]
        lambda: next(api.attack("mini-bert-packaged", "mini-sentiment", wrong)),  # type: ignore[arg-type]
    ):
        with pytest.raises(RbenchError):
            call()


@pytest.mark.parametrize("wrong", [None, 5, True, 0.5, "x", {}, [], ["x", "y"], [None], object()], ids=named)
def test_texts_and_labels_that_are_none(wrong: object) -> None:
    with pytest.raises(RbenchError):
        read(wrong, [1], None)  # type: ignore[arg-type]
    with pytest.raises(RbenchError):
        read(["a good film"] * 3, wrong, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, "ab", ("a",), ("a", 1), ["a", "b", "c"]], ids=named)
def test_what_is_no_pair_of_encoders(wrong: Any) -> None:
    with pytest.raises(RbenchError, match="expected the names of two encoders"):
        rbench.compare("nowhere", between=wrong)


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_options(name: str) -> None:
    """The suite is wrong too, so that nothing runs where an option happens to be right."""
    for wrong in WRONG:
        with pytest.raises(RbenchError):
            rbench.run(SUITE, progress=False, **{name: wrong})


@pytest.mark.parametrize("key", ["encoders", "tasks", "attacks", "num_examples", "seeds", "name", "finetune", "tables"])
def test_wrong_values_in_a_suite(key: str) -> None:
    for wrong in WRONG:
        with pytest.raises(RbenchError):
            api.plan({**SUITE, key: wrong} if key != "attacks" else {**SUITE, "tasks": "nope", key: wrong})


def test_a_run_in_which_all_failed_has_no_frames(tmp_path: Path) -> None:
    failed = Record(job=attack_job(0), status="failed", provenance=Provenance(rbench="0"), error="ValueError: x")
    result = api.RunResult(tmp_path, 0, failed=[failed, failed])
    for frame in ("summary", "frame"):
        with pytest.raises(JobError, match=r"no job of .* is complete: attack/.* failed \(ValueError: x\), and 1 more"):
            getattr(result, frame)
    assert "failed: attack/" in repr(result) and "ValueError: x" in result._repr_html_()
