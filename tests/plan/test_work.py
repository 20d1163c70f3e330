"""Tests what the model gives jobs: by strategy, by objective, and what it says of those that were never measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench import api
from rbench.plan.cost_model import costs
from rbench.plan.work import Estimator, Part, Work, play

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


def test_a_search_in_some_texts_costs_its_share_beyond_clean_fine_tuning(tmp_path: Path) -> None:
    texts = 0

    def cost(*finetune: Any) -> list[float]:
        nonlocal texts
        planned = api.plan(SUITE | {"encoders": ["mini-bert"], "finetune": [*finetune]}, out=tmp_path / "run")
        assert planned.prepared is not None
        texts = planned.prepared.data["mini-sentiment"].sizes["train"]
        return [seconds(work) for name, work in worked(planned).items() if name.startswith("finetune/")]

    clean, whole = cost("clean", "adversarial")
    half, many = cost({"adversarial": {"num_texts": texts // 2}}, {"adversarial": {"num_texts": 2 * texts}})
    assert half - clean == pytest.approx((whole - clean) / 2, rel=0.01)
    assert many == pytest.approx(whole)


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


@st.composite
def plans(draw: st.DrawFn) -> list[Part]:
    parts: list[Part] = []
    for i in range(draw(st.integers(0, 12))):
        needs = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        seconds, chunks = draw(st.integers(0, 20)), draw(st.integers(1, 4))
        parts.append(Part(str(i), tuple(map(str, sorted(needs))), float(seconds), chunks))
    return parts


@given(plans(), st.integers(1, 6))
def test_no_schedule_is_faster_and_none_that_is_greedy_much_slower(parts: list[Part], processes: int) -> None:
    found = play(parts, processes)
    work = sum(part.seconds * part.chunks for part in parts)
    longest: dict[str, float] = {}
    for part in parts:
        longest[part.name] = part.seconds + max((longest[name] for name in part.needs), default=0.0)
    chain = max(longest.values(), default=0.0)
    assert found.work == pytest.approx(work) and found.chain_seconds == pytest.approx(chain)
    assert max(work / processes, chain) <= found.seconds + 1e-6
    assert found.seconds <= work / processes + chain + 1e-6, "Graham's bound"
    if processes == 1:
        assert found.seconds == pytest.approx(work)
    by_name = {part.name: part for part in parts}
    assert sum(by_name[name].seconds for name in found.chain) == pytest.approx(chain)
    assert all(a in by_name[b].needs for a, b in zip(found.chain, found.chain[1:], strict=False))


def test_chunks_are_shared_and_jobs_are_not() -> None:
    parts = [Part("train", (), 10.0), Part("attack", ("train", "made before"), 2.0, 8)]
    assert [play(parts, n).seconds for n in (1, 2, 4, 8, 64)] == [26.0, 18.0, 14.0, 12.0, 12.0]
    assert play(parts, 64).chain == ("train", "attack")
