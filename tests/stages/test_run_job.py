"""How a job ends: whatever its code does, with a record, or with Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import stages
from rbench.storage.runs import Store
from rbench.system.slot import Slot
from tests.storage.runs.test_store import make_job


@pytest.fixture
def context(tmp_path: Path) -> Any:
    return SimpleNamespace(store=Store(tmp_path), device="cpu", network=Slot())


def raising(error: BaseException) -> Any:
    def attack(*arguments: Any) -> Any:
        raise error

    return attack


@pytest.mark.parametrize("error", [ZeroDivisionError("no luck"), SystemExit(0), GeneratorExit()])
def test_a_job_that_raises_or_leaves_has_failed(
    error: BaseException, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages.attacks, "attack", raising(error))
    record = stages.run_job(make_job(), context)
    assert record.status == "failed" and type(error).__name__ in str(record.error)
    assert context.store.record(make_job()) == record


def test_ctrl_c_leaves_no_record(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages.attacks, "attack", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        stages.run_job(make_job(), context)
    assert context.store.record(make_job()) is None
