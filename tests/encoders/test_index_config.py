"""The kept vectors of a corpus are those of the encoder's config and transform, too, and not of its weights alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from rbench.encoders import index
from rbench.encoders.sentence import SentenceEncoder
from rbench.encoders.transform import DenseTransform, LinearTransform, Transform
from tests.recipes import substitution_toy as toy

TEXTS = ["the film was good", "a man sold the bus"]


def encoder(transform: Transform | None = None, **config: Any) -> SentenceEncoder:
    """An encoder whose weights are the same whatever its config says."""
    torch.manual_seed(0)
    tokenizer = toy.bert_tokenizer()
    network = BertModel(BertConfig(vocab_size=len(tokenizer), initializer_range=0.5, **toy.SHAPE, **config))
    return SentenceEncoder(network, tokenizer, "mean", transform=transform).eval()


def exchange_words(made: SentenceEncoder) -> SentenceEncoder:
    """The encoder, whose tokenizer has the tokens of two words exchanged."""
    content = json.loads(made.tokenizer.backend_tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    vocabulary["film"], vocabulary["good"] = vocabulary["good"], vocabulary["film"]
    made.tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
    return made


def test_vectors_are_not_those_of_another_network_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path))
    width = encoder().width
    weight, bias = torch.eye(width), torch.zeros(width)
    for one in (
        encoder(),
        encoder(hidden_act="relu"),
        encoder(DenseTransform(weight, bias, "Tanh")),
        encoder(DenseTransform(weight, bias, "ReLU")),
        encoder(LinearTransform(weight, bias)),
        exchange_words(encoder()),
    ):
        found = index.load_document_vectors(one, TEXTS, lambda done: None)
        np.testing.assert_allclose(found, index.to_unit_length(one.encode(TEXTS)), atol=1e-6)
    renamed = encoder()
    renamed.model.config.name_or_path = "elsewhere"
    before = len([*tmp_path.rglob("vectors-*.npy")])
    index.load_document_vectors(renamed, TEXTS, lambda done: None)
    assert len([*tmp_path.rglob("vectors-*.npy")]) == before
