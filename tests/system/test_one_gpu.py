"""Tests that a training does not grow with the GPUs that a machine shows."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

from rbench.schema import Training
from rbench.train import loop
from rbench.train.finetune import _tuning
from tests import tiny
from tests.train import bases


@pytest.fixture(params=[0, 1, 4])
def seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of GPUs that transformers finds."""
    n: int = request.param

    def found(self: transformers.TrainingArguments) -> torch.device:
        self._n_gpu = n
        return torch.device("cpu")

    monkeypatch.setattr(transformers.TrainingArguments, "_setup_devices", functools.cached_property(found))
    transformers.TrainingArguments._setup_devices.__set_name__(transformers.TrainingArguments, "_setup_devices")
    return n


def test_a_batch_is_what_the_suite_says(seen: int, tmp_path: Path) -> None:
    encoder = tiny.encoder(tiny.write_bert(tmp_path / "bert"))
    context = tiny.context(encoder, tiny.data(train=8), Training(batch_size=32))
    spec = bases.spec("simcse", tmp_path / "bert", batch_size=32)
    run: Any = SimpleNamespace(
        spec=spec,
        train=spec.train,
        device="cpu",
        checkpoints=None,
        out=tmp_path,
        seed=0,
        reports=loop.TrackerOutput((), tmp_path),
    )
    for found in (
        _tuning._trainer_arguments(tmp_path, context, 0, "last", "accuracy"),
        loop._trainer_arguments(64, False, run),
    ):
        assert found.train_batch_size == 32 and found.n_gpu == min(1, seen)
