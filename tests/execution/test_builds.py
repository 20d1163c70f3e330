"""Tests that a build job stores what it measured, whatever a run that was killed has left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.errors import StoreError
from rbench.execution import measured
from rbench.measures import Measure, Measured
from rbench.measures.positives import Options
from rbench.schema import Choice, EncoderSpec, Job, Outcome, PretrainJob, Provenance, TrainSpec
from rbench.store.runs import RunStore
from tests.specs import of_training
from tests.store.builders import make_job, make_outcome
from tests.tables.conftest import TASKS

ENCODER = EncoderSpec(name="e", base="org/x", train=TrainSpec(objective="adcl", data="mr", steps=1))
BUILT = [make_outcome("train:1", perturbed=("b film",)), make_outcome("train:2")]


class _Inputs:
    def __init__(self, job: Job, context: Any) -> None: ...

    def made_weights(self, which: str) -> str:
        return "."

    open = made_weights

    def resources(self, *asked: Any) -> None: ...

    hashes = resources

    def check(self, ask: bool = False) -> None: ...


@pytest.fixture
def trained() -> Job:
    return Job.make(PretrainJob(encoder=ENCODER, data_fingerprint="d"), ("e",), {}, 0)


@pytest.fixture
def job(trained: Job) -> Job:
    spec = of_training("e", Choice(name="positives"), TASKS["mr"])
    return Job.make(spec, ("e", "mr", "positives"), {"encoder": trained.key}, 0)


@pytest.fixture
def context(tmp_path: Path, trained: Job, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(measured, "JobInputs", _Inputs)
    monkeypatch.setattr(measured, "encoder_as_trained", lambda spec, context: spec.encoder)
    monkeypatch.setattr(measured, "weights_hash", lambda folder: "w")
    modules = {("measures", "positives"): Built(), ("objectives", "adcl"): None}
    return SimpleNamespace(
        plan=SimpleNamespace(job=lambda key: trained),
        store=RunStore(tmp_path),
        modules={
            name: SimpleNamespace(open=lambda found=found: found, path=Path("measures/built.py"))
            for name, found in modules.items()
        },
        data=lambda *asked: SimpleNamespace(split=None, sizes={}),
        device="cpu",
        progress=SimpleNamespace(update=None),
    )


class Built(Measure[Options]):
    """A build that always makes the same."""

    def run(self, options: Options, context: Any) -> Measured:
        return Measured(list(BUILT))


def run(job: Job, context: Any) -> list[Outcome]:
    assert job.measuring is not None
    record = measured.measure(job, job.measuring, context, lambda **fields: Provenance(rbench="0", **fields))
    context.store.write_record(record)
    assert context.store.record(job) == record
    found: list[Outcome] = context.store.outcomes(job)
    return found


def test_what_was_built_replaces_what_a_killed_run_left(job: Job, context: Any) -> None:
    left = [make_outcome("train:1", perturbed=("another film",)), make_outcome("train:9")]
    context.store.write_outcomes(job, left)
    assert run(job, context) == BUILT
    assert run(job, context) == BUILT


def test_lines_of_another_job_are_not_replaced(job: Job, context: Any) -> None:
    context.store.write_outcomes(job, BUILT[:1])
    (context.store.folder(job) / "outcomes.jsonl").write_bytes(other_line(context.store))
    with pytest.raises(StoreError):
        run(job, context)


def other_line(store: RunStore) -> bytes:
    other = make_job()
    store.write_outcomes(other, BUILT[:1])
    return (store.folder(other) / "outcomes.jsonl").read_bytes()
