"""A command line whose `rbench.api` is a mock: what is tested is parsing and printing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rbench import api
from rbench.cli import app
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    EncoderSpec,
    FinetuneJob,
    Job,
    Outcome,
    Plan,
    Provenance,
    Record,
    ResourceSet,
    Suite,
    TaskSpec,
    Training,
)


class Api:
    """Records calls of the functions that it stands in for, and answers with what a test put into `answers`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        for name in ("run", "plan", "table", "attack", "doctor"):
            monkeypatch.setattr(api, name, self._stand_in(name))
        monkeypatch.setattr(
            api, "check_conditions", lambda *_: None
        )  # it plans the suite, and these suites do not exist

    def _stand_in(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            answer = self.answers.get(name)
            if isinstance(answer, BaseException):
                raise answer
            return answer(*args, **kwargs) if callable(answer) else answer

        return call

    @property
    def options(self) -> api.Options:
        """The Options of the last call."""
        (options,) = (arg for arg in self.calls[-1][1] if isinstance(arg, api.Options))
        return options


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> Api:
    return Api(monkeypatch)


class Shell:
    """Runs `rbench ARGS`; a wide window, so that no line is broken by width alone."""

    def __init__(self) -> None:
        self.runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})

    def __call__(self, *args: str | Path) -> Result:
        return self.runner.invoke(app, [str(arg) for arg in args])


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture(autouse=True)
def clean_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search paths of the developer's."""
    for name in ("RBENCH_DATA", "RBENCH_MODELS", "RBENCH_INCLUDE"):
        monkeypatch.delenv(name, raising=False)


TASK = TaskSpec(name="mr", kind="single", columns=("text",), labels=("negative", "positive"))
STRATEGY = Choice(name="clean")


def finetune_job(seed: int) -> Job:
    encoder = EncoderSpec(name="minilm", base="some/model")
    spec = FinetuneJob(encoder=encoder, strategy=STRATEGY, task=TASK, data_fingerprint="d", training=Training())
    return Job.make(spec, ("minilm", "mr", "clean"), {}, seed)


def attack_job(seed: int) -> Job:
    spec = AttackJob(
        encoder="minilm",
        strategy=STRATEGY,
        task=TASK,
        data_fingerprint="d",
        attack=AttackSpec(name="pwws", recipe="PWWSRen2019"),
        resources=ResourceSet(name="mini"),
        resource_fingerprints={},
        num_examples=100,
    )
    return Job.make(spec, ("minilm", "mr", "clean", "pwws"), {"victim": finetune_job(seed).key}, seed)


@pytest.fixture
def planned() -> api.Planned:
    """Three seeds of one cell; the first victim is there, nothing is attacked yet."""
    jobs = (*map(finetune_job, range(3)), *map(attack_job, range(3)))
    suite = Suite(name="demo", encoders=("minilm",), tasks=("mr",))
    return api.Planned(
        plan=Plan(suite=suite, jobs=jobs),
        jobs=jobs,
        run=Path("results/runs/demo"),
        done=frozenset([jobs[0].key]),
        estimates={job.key: api.Estimate(100, 12_123) for job in jobs[3:]},
        notes=["mr: from somewhere"],
    )


@pytest.fixture
def failed() -> Record:
    error = "Traceback (most recent call last):\n  ...\nValueError: the head fell off"
    return Record(job=attack_job(1), status="failed", provenance=Provenance(rbench="0"), error=error)


def outcome(**fields: Any) -> Outcome:
    given = {
        "example_id": "17",
        "status": "succeeded",
        "original": ("a good film",),
        "perturbed": ("a fine film",),
        "label": 1,
        "original_prediction": 1,
        "perturbed_prediction": 0,
        "num_queries": 41,
        "num_words": 3,
        "num_words_changed": 1,
    }
    return Outcome.model_validate({**given, **fields})
