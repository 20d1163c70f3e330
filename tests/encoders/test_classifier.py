from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError
from tests.encoders.families import write_model

TEXTS = ["the film was good", "a poor plot and a dull story"]


def inputs(classifier: EncoderClassifier) -> dict[str, Tensor]:
    return dict(classifier.tokenizer(TEXTS, padding=True, return_tensors="pt"))


@pytest.mark.parametrize("pooling", ["cls+mlp", "first-last-mean", "weighted-mean"])
def test_a_saved_classifier_gives_the_same_logits_bit_for_bit(pooling: str, bert: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    classifier = EncoderClassifier(SentenceEncoder.open(bert, pooling=pooling, max_length=40), 3, max_length=20).eval()
    classifier.save(tmp_path / "victim", {"task": "toy", "labels": ["a", "b", "c"]})
    loaded, meta = EncoderClassifier.load(tmp_path / "victim")
    assert meta == {"task": "toy", "labels": ["a", "b", "c"]}
    assert (loaded.max_length, loaded.encoder.max_length, loaded.encoder.pooling) == (20, 40, pooling)
    assert not loaded.training
    with torch.no_grad():
        logits = classifier(**inputs(classifier)).logits
        assert torch.equal(loaded(**inputs(loaded)).logits, logits)
    assert logits.dtype == torch.float32 and logits.shape == (2, 3)
    names = {path.name for path in (tmp_path / "victim").iterdir()}
    assert {"config.json", "tokenizer.json", "model.safetensors", "head.safetensors", "rbench.json"} <= names
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "mpnet"])
def test_other_families_survive_saving_too(kind: str, bert: Path, tmp_path: Path) -> None:
    where = write_model(kind, bert, tmp_path / kind)
    classifier = EncoderClassifier(SentenceEncoder.open(where, pooling="mean", layers=2), 2).eval()
    classifier.save(tmp_path / "victim", {})
    loaded, _ = EncoderClassifier.load(tmp_path / "victim")
    given = {name: value for name, value in inputs(classifier).items() if name != "token_type_ids"}
    with torch.no_grad():
        assert torch.equal(loaded(**given).logits, classifier(**given).logits)


def test_loss_is_cross_entropy_and_gradients_reach_the_embeddings(bert: Path) -> None:
    classifier = EncoderClassifier(SentenceEncoder.open(bert, pooling="cls"), 2).eval()
    labels = torch.tensor([1, 0])
    answer = classifier(**inputs(classifier), labels=labels)
    expected = -torch.log_softmax(answer.logits, dim=1)[range(2), labels].mean()
    torch.testing.assert_close(answer.loss, expected)
    answer.loss.backward()
    assert classifier.get_input_embeddings().weight.grad.abs().sum() > 0
    assert classifier(**inputs(classifier)).loss is None


def test_embeddings_may_be_given_in_place_of_ids(bert: Path) -> None:
    classifier = EncoderClassifier(SentenceEncoder.open(bert, pooling="mean"), 2).eval()
    given = inputs(classifier)
    embedded = classifier.get_input_embeddings()(given["input_ids"])
    with torch.no_grad():
        torch.testing.assert_close(
            classifier(inputs_embeds=embedded, attention_mask=given["attention_mask"]).logits,
            classifier(input_ids=given["input_ids"], attention_mask=given["attention_mask"]).logits,
        )


def test_logits_are_float32_where_the_network_computes_in_less(bert: Path) -> None:
    classifier = EncoderClassifier(SentenceEncoder.open(bert, pooling="mean"), 2).eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert classifier(**inputs(classifier)).logits.dtype == torch.float32


def test_dropout_and_length_come_from_the_network_unless_given(bert: Path) -> None:
    encoder = SentenceEncoder.open(bert, pooling="cls")
    encoder.model.config.hidden_dropout_prob = 0.25
    assert EncoderClassifier(encoder, 2).dropout.p == 0.25
    assert EncoderClassifier(encoder, 2, 0.0).dropout.p == 0.0
    assert EncoderClassifier(encoder, 2).max_length == encoder.max_length == 64
    assert EncoderClassifier(encoder, 2, max_length=1000).max_length == 64


def test_what_is_no_saved_classifier_is_refused(bert: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "none", bert):
        with pytest.raises(FileNotFoundError):
            EncoderClassifier.load(folder)
    EncoderClassifier(SentenceEncoder.open(bert, pooling="cls"), 2).save(tmp_path / "victim", {})
    about = tmp_path / "victim" / "rbench.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"num_labels": 5}))
    with pytest.raises(ResourceError):
        EncoderClassifier.load(tmp_path / "victim")
    about.write_text(json.dumps({"format": 99}))
    with pytest.raises(ResourceError, match="99"):
        EncoderClassifier.load(tmp_path / "victim")
