"""Tests what the model gives jobs: by strategy, by objective, and what it says of those that were never measured."""

from __future__ import annotations

from typing import Any

import pytest

from rbench import api
from rbench.plan.cost_model import costs
from rbench.plan.work import Estimator, Work

SUITE: dict[str, Any] = {
    "name": "worked-out",
    "encoders": ["mini-bert", {"simcse-mini": {"steps": 100}}, {"simcse-mini": {"steps": 200}}, "forget-mini"],
    "tasks": ["mini-sentiment"],
    "finetune": ["probe", "clean", "freelb", "adversarial"],
    "attacks": ["pwws"],
    "num_examples": 100,
    "resources": "mini",
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> api.Planned:
    return api.plan(SUITE, out=tmp_path_factory.mktemp("run"))


def worked(planned: api.Planned, **changes: Any) -> dict[str, Work]:
    assert planned.prepared is not None
    estimator = Estimator(planned.prepared, costs().model_copy(update=changes))
    return {job.name: estimator.of(job) for job in planned.plan.jobs}


def seconds(work: Work) -> float:
    return work.seconds.network + work.seconds.python


def test_strategies_cost_what_was_measured_of_each(planned: api.Planned) -> None:
    found = worked(planned)
    probe, clean, freelb, adversarial = (
        seconds(found[f"finetune/mini-bert/mini-sentiment/{name}/seed0"]) for name in SUITE["finetune"]
    )
    assert 0 < probe < clean < freelb < adversarial
    assert clean / probe == pytest.approx(costs().tuning["clean"] / costs().tuning["probe"])


def test_a_strategy_that_was_not_measured_is_named_and_has_the_median(planned: api.Planned) -> None:
    without = {name: rate for name, rate in costs().tuning.items() if name != "adversarial"}
    job = "finetune/mini-bert/mini-sentiment/adversarial/seed0"
    work = worked(planned, tuning=without, other_tuning=2 * costs().tuning["clean"])[job]
    assert work.unknown == "strategy adversarial" and worked(planned)[job].unknown is None
    clean = worked(planned)["finetune/mini-bert/mini-sentiment/clean/seed0"]
    assert seconds(work) == pytest.approx(2 * seconds(clean))


def test_trainings_cost_by_their_steps_and_an_objective_without_steps_what_it_took(planned: api.Planned) -> None:
    found = worked(planned)
    short, long = (seconds(found[f"pretrain/simcse-mini[steps={n}]/seed0"]) for n in (100, 200))
    assert long == pytest.approx(2 * short)
    forgotten = found["pretrain/forget-mini/seed0"]
    assert seconds(forgotten) == costs().fitted["forget"] < 60, "it reads a few texts and no corpus"
    assert forgotten.unknown is None and forgotten.cache_bytes > 0
