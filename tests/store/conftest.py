"""A small RUN of the embedded world, made once; each test damages a copy of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.plan.prepare import Options
from rbench.schema import Job
from rbench.store.runs import RunStore

N = 12
SUITE = f"""\
name: kept
encoders: [toy]
tasks: [mini-sentiment]
attacks: [pwws, random]
evaluate: [contrast]
num_examples: {N}
resources: {{set: mini, masked_lm: toy}}
training: {{max_train: 1000, max_validation: 40, epochs: 3, learning_rate: 3.0e-3}}
"""
ENCODER = """\
name: toy
architecture: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32}
train: {objective: mlm, data: mini-topic, steps: 10, learning_rate: 1.0e-3}
"""


@dataclass
class Told:
    """A Progress that remembers what it was told."""

    notes: list[str]
    started: list[str]

    def start(self, name: str, index: int, count: int) -> None:
        self.started.append(name)

    def update(self, done: int, total: int, text: str = "") -> None:
        pass

    def finish(self, status: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class World:
    """A RUN and the command that made it."""

    suite: Path
    options: Options

    @property
    def root(self) -> Path:
        assert self.options.out is not None
        return self.options.out

    @property
    def store(self) -> RunStore:
        return RunStore(self.root)

    def job(self, end: str) -> Job:
        """The one job whose name has `end` in it."""
        plan = self.store.plan()
        assert plan is not None
        (job,) = [job for job in plan.jobs if end in job.name]
        return job

    def file(self, end: str, name: str = "outcomes.jsonl") -> Path:
        return self.store.folder(self.job(end)) / name

    def run(self, **changes: Any) -> tuple[api.RunResult, Told]:
        """The same command again."""
        told = Told([], [])
        return api.run(self.suite, replace(self.options, **changes), progress=told), told

    def table(self, **options: Any) -> str:
        whole: dict[str, Any] = {} if options.get("fmt") in ("csv", "json") else {"notes": "full", "names": True}
        return api.table(self.root, **whole, **options)


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("kept")
    (place / "mine" / "encoders").mkdir(parents=True)
    (place / "mine" / "encoders" / "toy.yaml").write_text(ENCODER, encoding="utf-8")
    (place / "kept.yaml").write_text(SUITE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBENCH_CACHE", str(place / "cache"))
        yield place


@pytest.fixture(scope="package")
def whole(place: Path) -> World:
    """The RUN as it should be. Not to be written to."""
    world = World(place / "kept.yaml", Options(include=(place / "mine",), out=place / "whole", device="cpu"))
    result, _ = world.run()
    assert not result.failed
    return world


@pytest.fixture
def copied(whole: World, tmp_path: Path) -> Callable[[], World]:
    """Makes copies of the RUN, to be damaged."""

    def copy(name: str = "run") -> World:
        shutil.copytree(whole.root, tmp_path / name)
        return World(whole.suite, replace(whole.options, out=tmp_path / name))

    return copy


@pytest.fixture
def world(copied: Callable[[], World]) -> World:
    """One copy of the RUN."""
    return copied()
