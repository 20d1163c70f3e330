"""Tests runs with a cache that was altered or holds foreign files."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from rbench import api
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, Job, Record
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.store.weights import cache as sweeping
from rbench.system import scratch
from rbench.system.progress import SilentProgress

SUITE = """\
name: small
encoders: [toy]
tasks: [mini-sentiment]
attacks: [pwws]
num_examples: 6
resources: mini
training: {max_train: 200, max_validation: 40, epochs: 1, learning_rate: 1.0e-3}
"""
ENCODER = """\
name: toy
architecture: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64}
train: {objective: mlm, data: mini-topic, steps: 10, learning_rate: 1.0e-3}
"""


class Notes(SilentProgress):
    """Remembers what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def prepared(place: Path) -> Path:
    """The folder with a suite and an encoder."""
    (place / "mine" / "encoders").mkdir(parents=True)
    (place / "mine" / "encoders" / "toy.yaml").write_text(ENCODER)
    (place / "small.yaml").write_text(SUITE)
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, api.RunResult]:
    """Such a folder in which the suite was run, and what the run returned. Not to be written to."""
    place = prepared(tmp_path_factory.mktemp("made"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBENCH_CACHE", str(place / "cache"))
        return place, run(place)


@pytest.fixture
def ran(made: tuple[Path, api.RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, its RUN and its cache."""
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def run(place: Path, progress: Notes | None = None, only: tuple[str, ...] = ()) -> api.RunResult:
    options = Options(include=(place / "mine",), out=place / "run", only=only, device="cpu", backend="torch", workers=1)
    return api.run(place / "small.yaml", options, progress=progress)


def records(place: Path) -> dict[str, Record]:
    return {record.job.stage: record for record in RunStore(place / "run").records()}


def swap_two_words(victim: Path) -> None:
    """The two most frequent words of the embedded world change their places in the vocabulary."""
    file = victim / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    one, other = [word for word in vocabulary if word.isalpha()][:2]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    file.write_text(json.dumps(content), encoding="utf-8")


def again(place: Path, *stages: str) -> None:
    """As if the jobs had not run yet."""
    store = RunStore(place / "run")
    for job in store.plan().jobs:  # type: ignore[union-attr]
        if job.stage in stages:
            for file in store.folder(job).iterdir():
                file.unlink()


def test_a_victim_with_another_tokenizer_is_made_again_and_the_table_stays(
    ran: Path, made: tuple[Path, api.RunResult], caplog: pytest.LogCaptureFixture
) -> None:
    first = made[1]
    tuned = records(ran)["finetune"]
    victim = WeightCache(default_cache()).folder(tuned.job.key)
    right = (victim / "tokenizer.json").read_bytes()
    swap_two_words(victim)
    again(ran, "attack")
    with caplog.at_level(logging.WARNING):
        second = run(ran)
    assert f"{tuned.job.key[:8]} ({tuned.job.name}) cannot be trusted: tokenizer.json was altered" in caplog.text
    assert (victim / "tokenizer.json").read_bytes() == right
    assert second.tables == first.tables
    assert not second.failed


def test_a_victim_altered_while_the_run_is_under_way_fails_the_job_and_the_same_command_mends_it(
    ran: Path, made: tuple[Path, api.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbench.execution import run as running
    from rbench.execution.job import RunContext, run_job

    tuned = records(ran)["finetune"]
    again(ran, "attack")

    def alter_first(job: Job, context: RunContext) -> Record:
        if isinstance(job.spec, AttackJob):
            swap_two_words(context.cache.folder(job.needs["victim"]))
        return run_job(job, context)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(running, "run_job", alter_first)
        (failed,) = run(ran).failed
    assert tuned.job.key[:8] in (failed.error or "")
    assert "tokenizer.json was altered. Run the same command again" in (failed.error or "")
    assert run(ran).tables == made[1].tables


def test_a_run_sweeps_what_killed_ones_left_and_says_so(ran: Path) -> None:
    left = default_cache() / "tmp" / "finetune-00000000"
    left.mkdir(parents=True)
    left.with_name(f"{left.name}.lock").touch()
    notes = Notes()
    with scratch.temporary_folder("finetune") as living:
        run(ran, notes, only=("pretrain",))
        assert living.is_dir()
    assert not left.exists()
    assert f"removed what killed processes had left: {left}" in notes.said
    assert sweeping.list_leftovers(default_cache()) == []
    assert not list((default_cache() / "tmp").iterdir())
    quiet = Notes()
    run(ran, quiet, only=("pretrain",))
    assert not any("killed" in said for said in quiet.said)


def test_what_a_run_needs_is_in_use_until_it_is_over(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rbench.execution import run as running
    from rbench.execution.job import RunContext, run_job

    seen: list[set[str]] = []

    def look_first(job: Job, context: RunContext) -> Record:
        seen.append(WeightCache(default_cache()).in_use())
        return run_job(job, context)

    monkeypatch.setattr(running, "run_job", look_first)
    again(ran, "pretrain", "finetune")
    run(ran, only=("finetune",))
    keys = {record.job.key for stage, record in records(ran).items() if stage in ("pretrain", "finetune")}
    assert seen == [keys, keys]
    assert WeightCache(default_cache()).in_use() == set()
