"""Tests that a training is not lost if something fails between its last step and the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.execution import weights
from rbench.plan.prepare import Options
from rbench.schema import Record
from rbench.store.runs import RunStore
from rbench.store.weights import default_cache
from rbench.system.progress import SilentProgress
from tests.recipes import world

SUITE = """\
encoders: [ours]
tasks: [mini-sentiment]
attacks: [{pwws: {max_words: 1}}]
training: {max_train: 64, max_validation: 32, epochs: 1}
num_examples: 4
resources: mini
"""
ENCODER = """\
base: org/plain
pooling: mean
train: {objective: simcse, data: mini-corpus, steps: 3, batch_size: 8, options: {dropout: 0.1}}
"""
PRETRAIN, FINETUNE = "pretrain/ours/seed0", "finetune/ours/mini-sentiment/clean/seed0"


class Steps(SilentProgress):
    """Notes the steps of each job."""

    def __init__(self) -> None:
        self.now, self.seen = "", dict[str, list[int]]()

    def start(self, name: str, index: int, count: int) -> None:
        self.now = name

    def update(self, done: int, total: int, text: str = "") -> None:
        self.seen.setdefault(self.now, []).append(done)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "encoders").mkdir()
    (tmp_path / "encoders" / "ours.yaml").write_text(ENCODER, encoding="utf-8")
    (tmp_path / "small.yaml").write_text(SUITE, encoding="utf-8")
    world.write_bert(tmp_path / "models" / "org" / "plain", 0, head=False)
    return tmp_path


def run(only: str) -> tuple[Record, Steps]:
    """Run the jobs of a name; return the record of the first of this name, and the steps that were taken."""
    steps = Steps()
    more: dict[str, Any] = {"include": (Path(),), "models": (Path("models"),), "device": "cpu", "backend": "torch"}
    result = api.run("small.yaml", Options(only=(only,), workers=1, **more), progress=steps)
    (record,) = [one for one in RunStore(result.run).records() if one.job.name == only]
    return record, steps


def kept(record: Record) -> list[Path]:
    return list((default_cache() / "checkpoints" / record.job.key).glob("checkpoint-*"))


def fails(*arguments: Any) -> None:
    raise OSError("no space left on device")


def test_a_pretraining_goes_on_after_its_last_step(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("rbench.execution.publish.encoder.write_card", fails)
        record, steps = run(PRETRAIN)
    assert record.status == "failed" and record.error is not None and "no space left" in record.error
    assert steps.seen[PRETRAIN][-1] == 3
    assert kept(record)
    again, steps = run(PRETRAIN)
    assert again.status == "complete"
    assert not [step for step in steps.seen.get(PRETRAIN, []) if step <= 3], "no step is taken a second time"
    assert not kept(again), "they are of no use once the cache has the weights"


def test_checkpoints_of_a_fine_tuning_go_once_the_cache_has_the_victim(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbench.train.finetune import _tuning

    monkeypatch.setattr(_tuning, "AFTER", 0.0)
    (place / "encoders" / "ours.yaml").write_text("base: org/plain\npooling: mean\n", encoding="utf-8")
    with monkeypatch.context() as broken:
        broken.setattr(weights, "victim_health", fails)
        record, _ = run(FINETUNE)
    assert record.status == "failed"
    assert kept(record)
    again, _ = run(FINETUNE)
    assert again.status == "complete"
    assert not kept(again)


RETURNED = {
    "nothing": ("None", "TypeError: 'NoneType' object is not iterable"),
    "number": ("0.5", "TypeError: 'float' object is not iterable"),
    "unnamed": ("Finetuned(None, [0.5])", "ValueError: no score validation_accuracy"),
    "undefined": ("(None, {NAME: float('nan')})", "validation_accuracy nan; expected a number from 0 to 1"),
    "percent": ("Finetuned(None, {NAME: 55.0})", "validation_accuracy 55; expected a number from 0 to 1"),
    "word": ("Finetuned(None, {NAME: 'high'})", "ValueError: could not convert string to float: 'high'"),
    "other": ("Finetuned(None, {NAME: 0.5, 'loss': float('inf')})", "loss inf; expected a finite number"),
    "health": ("Finetuned(None, {NAME: 0.5}, Health(values={'a': float('nan')}))", "a nan; expected a finite number"),
}
"""By the name of a strategy what it returns, and what is said of it."""
STRATEGY = """\
from rbench.schema import Health
from rbench.schema.extension import NoOptions
from rbench.train.finetune import Finetuned, FinetuneStrategy

NAME = "validation_accuracy"


class Own(FinetuneStrategy[NoOptions]):
    def run(self, options, context):
        return {}
"""


def test_a_strategy_that_returns_something_else_fails_with_its_file_and_what_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "finetune").mkdir()
    for name, (returned, _) in RETURNED.items():
        (tmp_path / "finetune" / f"{name}.py").write_text(STRATEGY.format(returned), encoding="utf-8")
    suite = f"encoders: [mini-static]\ntasks: [mini-sentiment]\nfinetune: [{', '.join(RETURNED)}]\nresources: mini\n"
    (tmp_path / "s.yaml").write_text(f"{suite}attacks: [pwws]\n", encoding="utf-8")
    options = Options(out=tmp_path / "RUN", include=(tmp_path,), only=("finetune/",), device="cpu", workers=1)
    result = api.run(tmp_path / "s.yaml", options, progress=SilentProgress())
    failed = {record.job.parts[2]: record.reason for record in result.failed}
    assert failed.keys() == RETURNED.keys()
    for name, (_, said) in RETURNED.items():
        assert f"{name}.py: " in failed[name] and said in failed[name], failed[name]
        assert failed[name].endswith("see docs/guide-add-a-strategy.md")
    assert not list((tmp_path / "cache" / "checkpoints").glob("*/*")), "nothing is left to go on from"
