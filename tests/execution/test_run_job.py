"""Tests that a job ends with a record or with Ctrl-C, whatever its code does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import masking
from rbench.config.registry import load_module
from rbench.errors import JobError, LeaseLost
from rbench.execution import attacks, measured
from rbench.execution.job import run_job
from rbench.schema import EncoderSpec, Job, Provenance, Record, TaskSpec
from rbench.store.runs import RunStore
from rbench.system.one_slot_cache import OneSlotCache
from tests.specs import of_sts
from tests.store.builders import make_job


@pytest.fixture
def context(tmp_path: Path) -> Any:
    return SimpleNamespace(
        store=RunStore(tmp_path),
        team=SimpleNamespace(check=lambda job: None, check_deaths=lambda job: None),
        device="cpu",
        network=OneSlotCache(),
        encoders={},
    )


def raising(error: BaseException) -> Any:
    def attack(*arguments: Any) -> Any:
        raise error

    return attack


@pytest.mark.parametrize("error", [ZeroDivisionError("no luck"), SystemExit(0), GeneratorExit()])
def test_a_job_that_raises_or_exits_has_failed(
    error: BaseException, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attacks, "attack", raising(error))
    record = run_job(make_job(), context)
    assert record is not None and record.status == "failed" and type(error).__name__ in str(record.error)
    assert context.store.record(make_job()) == record


def test_what_a_users_module_raises_ends_with_its_line(
    context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def attack(*arguments):\n    return 1 / 0\n")
    monkeypatch.setattr(attacks, "attack", load_module(file).attack)
    record = run_job(make_job(), context)
    assert record is not None and record.error is not None and record.error.startswith("Traceback")
    assert record.reason == f"{file}:2: ZeroDivisionError: division by zero"


def test_secrets_in_the_causes_of_an_error_are_in_no_record(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_learned", set())
    masking.learn("s3cret")
    error, cause = RuntimeError("at last s3cret"), KeyError("then s3cret")
    cause.__context__, error.__cause__ = ValueError("first s3cret"), cause
    monkeypatch.setattr(attacks, "attack", raising(error))
    record = run_job(make_job(), context)
    assert record is not None and record.error is not None and "s3cret" not in record.error
    for said in ("ValueError: first ***", "KeyError: 'then ***'", "RuntimeError: at last ***"):
        assert said in record.error


def test_a_job_with_which_too_many_processes_died_fails_before_it_is_tried(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(attacks, "attack", lambda *arguments: tried.append(arguments))
    context.team.check_deaths = raising(JobError("4 processes died"))
    record = run_job(make_job(), context)
    assert record is not None and (record.status, record.error) == ("failed", "4 processes died") and not tried


def test_ctrl_c_leaves_no_record(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "attack", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run_job(make_job(), context)
    assert context.store.record(make_job()) is None


def test_who_lost_its_lease_writes_no_record(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Record(job=make_job(), status="complete", provenance=Provenance(rbench="0"))
    monkeypatch.setattr(attacks, "attack", raising(LeaseLost("another has it")))
    with pytest.raises(LeaseLost):
        run_job(make_job(), context)
    monkeypatch.setattr(attacks, "attack", lambda *arguments: ended)
    context.team.check = raising(LeaseLost("another has it"))
    with pytest.raises(LeaseLost):
        run_job(make_job(), context)
    assert context.store.record(make_job()) is None
    monkeypatch.setattr(attacks, "attack", lambda *arguments: None)
    assert run_job(make_job(), context) is None and context.store.record(make_job()) is None


def test_what_evaluations_keep_in_memory_goes_before_a_job_of_another_kind(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held() -> bool:
        return context.network.get("place", lambda: None) is not None

    monkeypatch.setattr(attacks, "attack", raising(ZeroDivisionError()))
    monkeypatch.setattr(measured, "measure", raising(ZeroDivisionError()))
    context.network.get("place", object)
    run_job(make_evaluation(), context)
    assert held()
    run_job(make_job(), context)
    assert not held()


def make_evaluation() -> Job:
    task = TaskSpec(name="sim", kind="sts", columns=("a", "b"))
    encoder = EncoderSpec(name="toy", base="toy")
    spec = of_sts(encoder, task, encoder_fingerprint="w")
    return Job.make(spec, ("toy", "sim"), {}, 0)
