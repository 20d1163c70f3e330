"""A saved victim keeps the length of its encoder, also where its network has no longest input."""

from __future__ import annotations

from pathlib import Path

from transformers import T5Config, T5EncoderModel

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.model_metadata import read_fields
from rbench.encoders.sentence import SentenceEncoder
from tests.recipes import substitution_toy as toy


def test_a_victim_on_a_t5_keeps_its_length(tmp_path: Path) -> None:
    tokenizer = toy.bert_tokenizer()
    network = T5EncoderModel(T5Config(vocab_size=len(tokenizer), d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2))
    EncoderClassifier(SentenceEncoder(network, tokenizer, "mean", max_length=16), 2).save(
        tmp_path, {"labels": ["a", "b"]}
    )
    assert read_fields(tmp_path)["max_length"] == 16
