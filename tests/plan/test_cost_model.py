"""Tests the model of costs: its FLOPs against a network's own layers, and the constants that rbench comes with."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import PlanError
from rbench.plan import cost_model
from rbench.plan.cost_model import (
    MINILM,
    REFERENCE,
    Network,
    Seconds,
    attack_seconds,
    costs,
    tokens_of,
    training_seconds,
)
from tests import reference


def test_flops_and_weights_are_those_of_the_layers() -> None:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, vocab_size=100
    )
    bert = BertModel(config, add_pooling_layer=False)
    linear = sum(one.weight.numel() for one in bert.encoder.modules() if isinstance(one, torch.nn.Linear))
    ours = Network(2, 32, 48, 100)
    # Of T tokens, attention takes T x T products of 32 numbers for the scores, and as many for the mean of the values.
    assert ours.gflop(10) * 1e9 == pytest.approx(2 * linear * 10 + 2 * (2 * 2 * 10 * 10 * 32))
    assert ours.weights == linear + bert.embeddings.word_embeddings.weight.numel()


def test_longer_texts_and_larger_networks_cost_more_and_python_does_not_grow() -> None:
    model = costs()
    base = Network(12, 768, 3072)
    for name in (*model.attacks, "never heard of"):
        short = attack_seconds(model, name, MINILM, (20, 20), 128)
        long = attack_seconds(model, name, MINILM, (200, 200), 512)
        large = attack_seconds(model, name, base, (20, 20), 128)
        assert long.network > short.network and long.python > short.python, "more words, more queries"
        assert large.network > short.network and large.python == pytest.approx(short.python)
        beside = attack_seconds(model, name, MINILM, (20, 20), 128, beside=8.0)
        assert beside.network >= short.network and beside.python == pytest.approx(short.python)
        alone = attack_seconds(model, name, MINILM, (20, 20), 128, beside=0.0)
        assert alone.network <= short.network


def test_a_query_about_a_text_of_reference_takes_what_was_measured() -> None:
    for cost in costs().attacks.values():
        time = cost.per_query(REFERENCE)
        assert time.network + time.python == pytest.approx(cost.seconds)


def test_tokens_are_cut_to_what_a_victim_reads() -> None:
    assert tokens_of(1000, 128) == 128 and tokens_of(10, 128) == pytest.approx(15.5)


def test_steps_of_a_training_cost_python_but_never_more_than_the_training() -> None:
    time = training_seconds(0.5, 100.0, 200)
    assert time.python == 200 * cost_model.STEP and time.network == pytest.approx(50 - time.python)
    assert training_seconds(0.5, 1.0, 10_000).network == 0.0


def test_the_constants_are_of_committed_runs_and_state_their_error() -> None:
    model = costs()
    assert len(model.errors) >= 3 and {*model.errors} <= {*reference.NAMES}
    for name, cost in model.attacks.items():
        assert 0 <= cost.python <= cost.fixed < 1 and cost.seconds > 0 and cost.cells > 0, name
    off = sorted(max(error["all"], 1 / error["all"]) for error in model.errors.values())
    assert model.spread == pytest.approx(off[math.ceil(0.8 * len(off)) - 1], rel=0.01)


@given(st.integers(1, cost_model.MOST), st.sampled_from(sorted(cost_model.PEAK)), st.sampled_from(["x", " x ", "*"]))
def test_a_number_and_a_gpu_are_read(count: int, name: str, sign: str) -> None:
    assert cost_model.parse(f"{count}{sign}{name.lower()}") == (count, name)


@given(st.text(max_size=12))
def test_anything_else_is_refused_with_a_remedy(text: str) -> None:
    try:
        count, name = cost_model.parse(text)
    except PlanError as error:
        assert "--machines" in str(error)
    else:
        assert 1 <= count <= cost_model.MOST and name in cost_model.PEAK


def test_what_is_refused_is_said() -> None:
    assert cost_model.parse("RTX 4090") == (1, "RTX4090")
    for text, said in (("8xB9000", "known GPUs: T4"), ("0xH100", "from 1 to"), ("8", "such as 8xH100")):
        with pytest.raises(PlanError, match=said):
            cost_model.parse(text)


def test_workers_share_attacks_and_cores_share_trainings() -> None:
    model = costs()
    own = cost_model.here(model, model.gflops * 2, cores=4, workers=3)
    time = Seconds(network=10.0, python=1.0)
    assert own.seconds(time, 1, attack=True) == pytest.approx((10 / 2 + 1) / 3)
    assert own.seconds(time, 1, attack=False) == pytest.approx((10 / 2 + 1) / 2), "the reference machine has two cores"
    assert cost_model.here(model, model.gflops, cores=1, workers=1).seconds(time, 1, attack=False) == 11.0


def test_a_gpu_speeds_up_networks_and_not_python() -> None:
    least, middle, most = (
        cost_model.gpus(costs(), 8, "H100").seconds(Seconds(100.0, 1.0), i, attack=True) for i in range(3)
    )
    assert 1.0 < least < middle < most < 20.0
    assert (middle - 1) / (least - 1) == pytest.approx(cost_model.SHARES[0] / cost_model.SHARES[1])
