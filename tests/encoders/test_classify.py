"""Compares batched classification with one text at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.classify import classify
from rbench.errors import JobError
from tests import tiny


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> EncoderClassifier:
    torch.manual_seed(3)
    made = EncoderClassifier(tiny.encoder(tiny.write_bert(tmp_path_factory.mktemp("bert"))), num_labels=3, max_length=8)
    torch.nn.init.normal_(made.head.weight)
    with torch.no_grad():  # texts of a random network are all alike: tell them apart around their mean
        vectors = torch.from_numpy(made.encoder.encode([" ".join(row) for row in rows(False)]))
        made.head.bias.copy_(-made.head.weight @ vectors.mean(dim=0))
    return made


def rows(pairs: bool) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(0)
    return [
        tuple(" ".join(rng.choice(tiny.WORDS, size=rng.integers(1, 10))) for _ in range(1 + pairs)) for _ in range(50)
    ]


@pytest.mark.parametrize("pairs", [False, True])
def test_labels_are_those_of_one_text_at_a_time(victim: EncoderClassifier, pairs: bool) -> None:
    texts = rows(pairs)
    victim.train()
    counted: list[int] = []
    found = classify(victim, texts, batch_size=8, progress=counted.append)
    assert not victim.training and sum(counted) == len(texts) and max(counted) == 8
    for i, text in enumerate(texts):
        encoded = victim.tokenizer(*text, truncation=True, max_length=8, return_tensors="pt")
        with torch.no_grad():
            assert found.labels[i] == int(victim(**encoded).logits.argmax()), text
        assert found.read[i] == tuple(encoded["input_ids"][0].tolist())
        assert found.cut[i] == (len(victim.tokenizer(*text)["input_ids"]) > 8)
    assert found.cut.any() and not found.cut.all() and len(set(found.labels.tolist())) > 1


def test_a_diverged_victim_is_an_error(victim: EncoderClassifier) -> None:
    broken = EncoderClassifier(victim.encoder, num_labels=2)
    torch.nn.init.constant_(broken.head.bias, float("nan"))
    with pytest.raises(JobError):
        classify(broken, rows(False))
