"""Tests estimates of time against sums by hand, and a network's operations against its own layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api, config
from rbench.config.registry import Registry
from rbench.plan import work
from rbench.plan.work import MINILM, DurationEstimator, MachineSpeed, NetworkSize, expected_queries, mean_words

SUITE: dict[str, Any] = {
    "name": "worked-out",
    "encoders": ["mini-bert", {"simcse-mini": {"steps": 100}}, {"simcse-mini": {"steps": 200}}, "forget-mini"],
    "tasks": ["mini-sentiment"],
    "finetune": ["probe", "clean", "freelb", "adversarial"],
    "attacks": ["pwws", "textfooler"],
    "num_examples": 100,
    "resources": "mini",
}
ALONE = MachineSpeed(gflops=100.0, cores=1, workers=1)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> api.Planned:
    return api.plan(SUITE, out=tmp_path_factory.mktemp("run"))


def seconds(planned: api.Planned, machine: MachineSpeed = ALONE) -> dict[str, float]:
    """Of each job, without the constant."""
    assert planned.prepared is not None
    timing = DurationEstimator(planned.prepared, machine)
    return {job.name: timing.seconds(job) - work.JOB_SECONDS for job in planned.plan.jobs}


def mini(planned: api.Planned) -> NetworkSize:
    assert planned.prepared is not None
    found = planned.prepared.loaded.encoders["mini-bert"].architecture
    assert found is not None
    size = dict(found)
    return NetworkSize(size["num_hidden_layers"], size["hidden_size"], size["intermediate_size"])


def test_operations_are_those_of_the_layers() -> None:
    import torch
    from transformers import BertConfig, BertModel

    shape = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, vocab_size=100)
    bert = BertModel(shape, add_pooling_layer=False)
    linear = sum(one.weight.numel() for one in bert.encoder.modules() if isinstance(one, torch.nn.Linear))
    # Of T tokens, attention takes T x T products of 32 numbers for the scores, and as many for the mean of the values.
    # A thousand words are more than 10 tokens.
    found = NetworkSize(2, 32, 48).reading(3, 1000, longest=10)
    assert found * 1e9 == pytest.approx(3 * (2 * linear * 10 + 2 * (2 * 2 * 10 * 10 * 32)))


def test_queries_of_a_text_of_twenty_words_are_those_of_its_file() -> None:
    pwws = config.load_attack("pwws", Registry())
    assert expected_queries(pwws, 20) == pytest.approx(20 * pwws.queries_per_word)
    assert expected_queries(pwws, 320) == pytest.approx(20 * pwws.queries_per_word * 16**0.8)


def test_an_attack_takes_its_queries_times_operations_over_the_rate(planned: api.Planned) -> None:
    assert planned.prepared is not None
    words = mean_words(planned.prepared.data["mini-sentiment"], "test")[1]
    longest = next(job.tuning for job in planned.plan.jobs if job.tuning is not None).training.max_length
    for name, constant in (("pwws", 0.0001), ("textfooler", 0.001)):  # TextFooler has a tagger
        asked = 100 * (0.8 * expected_queries(config.load_attack(name, Registry()), words) + 0.2)
        each = mini(planned).reading(1, words, longest) / (0.65 * 100) + constant  # of the mini world's own, no network
        job = f"attack/mini-bert/mini-sentiment/clean/{name}/seed0"
        assert seconds(planned)[job] == pytest.approx(asked * each)
        shared = seconds(planned, MachineSpeed(100.0, cores=8, workers=4))[job]
        assert shared == pytest.approx(asked * each / 4), "workers share it, a core each"


def test_a_fine_tuning_reads_its_rows_forwards_and_backwards_in_each_epoch(planned: api.Planned) -> None:
    assert planned.prepared is not None
    job = next(job for job in planned.plan.jobs if job.name == "finetune/mini-bert/mini-sentiment/clean/seed0")
    assert job.tuning is not None
    how, data = job.tuning.training, planned.prepared.data["mini-sentiment"]
    texts = how.epochs * (3 * data.sizes["train"] + min(data.sizes["validation"], how.max_validation or 10**9))
    gflop = mini(planned).reading(texts, mean_words(data, "train")[1], how.max_length)
    found = seconds(planned)
    assert found[job.name] == pytest.approx(2 * gflop / (0.65 * 100))
    for name, factor in (("probe", 0.3), ("freelb", 4), ("adversarial", 20)):
        of = found[job.name.replace("/clean/", f"/{name}/")]
        assert of == pytest.approx(found[job.name] * factor / 2)
    assert seconds(planned, MachineSpeed(100.0, cores=4, workers=1))[job.name] == pytest.approx(found[job.name] / 4)


def test_a_search_in_some_texts_costs_its_share_beyond_clean_fine_tuning(tmp_path: Path) -> None:
    texts = 0

    def cost(*finetune: Any) -> list[float]:
        nonlocal texts
        planned = api.plan(SUITE | {"encoders": ["mini-bert"], "finetune": [*finetune]}, out=tmp_path / "run")
        assert planned.prepared is not None
        texts = planned.prepared.data["mini-sentiment"].sizes["train"]
        return [one for name, one in seconds(planned).items() if name.startswith("finetune/")]

    clean, whole = cost("clean", "adversarial")
    half, many = cost({"adversarial": {"num_texts": texts // 2}}, {"adversarial": {"num_texts": 2 * texts}})
    assert half - clean == pytest.approx((whole - clean) / 2, rel=0.01)
    assert many == pytest.approx(whole)


def test_trainings_cost_by_their_steps_and_an_objective_without_steps_a_constant(planned: api.Planned) -> None:
    found = seconds(planned)
    short, long = (found[f"pretrain/simcse-mini[steps={n}]/seed0"] for n in (100, 200))
    assert planned.prepared is not None
    job = next(job for job in planned.plan.jobs if job.name == "pretrain/simcse-mini[steps=100]/seed0")
    how = planned.prepared.loaded.encoders[job.parts[0]].train
    assert how is not None and how.objective == "simcse"
    gflop = mini(planned).reading(3 * 100 * how.batch_size, how.max_length / 2, how.max_length)
    assert short == pytest.approx(3 * gflop / (0.65 * 100)) and long == pytest.approx(2 * short)
    assert found["pretrain/forget-mini/seed0"] == pytest.approx(10.0), "it reads a few texts and no corpus"


def test_a_network_of_unknown_size_counts_as_minilm(planned: api.Planned) -> None:
    assert planned.prepared is not None
    job = next(job for job in planned.plan.jobs if job.tuning is not None)
    timing = DurationEstimator(planned.prepared, ALONE)
    assert timing.network(job) == mini(planned)
    assert timing.network(job.model_copy(update={"parts": ("never heard of", *job.parts[1:])})) == MINILM
