"""Which probabilities of a config are those of dropout, and that a training's own reaches the whole network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import DistilBertConfig, GPT2Config, GPT2Model, T5Config, T5EncoderModel

from rbench.encoders.sentence import store_once
from rbench.train.models import dropout_rates, with_dropout


def gpt2() -> Any:
    return GPT2Model(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=16))


def t5() -> Any:
    return T5EncoderModel(T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2))


def test_dropout_of_heads_that_an_encoder_lacks_does_not_count() -> None:
    assert dropout_rates(GPT2Config()) == dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.1)
    assert dropout_rates(DistilBertConfig()) == dict.fromkeys(("attention_dropout", "dropout"), 0.1)


@pytest.mark.parametrize("make", [gpt2, t5])
def test_the_dropout_of_a_training_reaches_each_layer(make: Any) -> None:
    network = store_once(make())
    changed = with_dropout(network, 0.3)
    assert {layer.p for layer in changed.modules() if isinstance(layer, nn.Dropout)} == {0.3}
    before, after = network.state_dict(), changed.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
