"""Tests the model of costs: its FLOPs against a network's own layers, and the constants that rbench comes with."""

from __future__ import annotations

import math

import pytest

from rbench.plan import cost_model
from rbench.plan.cost_model import MINILM, REFERENCE, Network, attack_seconds, costs, tokens_of, training_seconds
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
