"""`finetune: [saved]`: the head that lies beside the encoder's weights, and nothing is trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.reading import ReadingSettings
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.schema import Training
from rbench.train.finetune import saved
from tests import tiny
from tests.refusals import refusal

LABELS = list(tiny.data(train=4).spec.labels)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A victim with a random head."""
    victim = EncoderClassifier(tiny.encoder(tiny.write_bert(tmp_path / "bert")), len(LABELS))
    torch.nn.init.normal_(victim.head.weight)
    victim.save(tmp_path / "victim", {"labels": LABELS})
    return tmp_path / "victim"


def run(folder: Path | None, encoder: Path | None = None) -> EncoderClassifier:
    of = tiny.encoder(encoder or folder or Path())
    context = tiny.context(of, tiny.data(train=8), Training(), weights=folder)
    victim, scores = saved.SavedStrategy().run(saved.Options(), context)
    assert 0 <= scores["validation_accuracy"] <= 1
    return victim  # type: ignore[no-any-return]


def test_the_victim_answers_as_it_did_when_it_was_saved(folder: Path) -> None:
    before, _ = EncoderClassifier.load(folder)
    victim = run(folder)
    assert not victim.training
    for text in ("the film was good", "a dull story"):
        inputs = victim.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            assert torch.equal(victim(**inputs).logits, before(**inputs).logits)


def test_the_head_is_part_of_the_fingerprint(folder: Path) -> None:
    from rbench.encoders.locate import hash_model

    before = hash_model(folder)
    other = EncoderClassifier(tiny.encoder(folder), len(LABELS))
    other.save(folder, {"labels": LABELS})
    assert hash_model(folder) != before


def test_what_is_no_saved_victim_of_these_labels_is_refused(folder: Path) -> None:
    bert = folder.parent / "bert"
    with refusal(JobError, "bert", "head.safetensors"):
        run(bert)
    with refusal(JobError, "head.safetensors"):
        run(None, bert)
    about = json.loads((folder / "rbench.json").read_text())
    (folder / "rbench.json").write_text(json.dumps({**about, "meta": {"labels": ["calm", "angry"]}}))
    with refusal(JobError, "calm, angry"):
        run(folder)
    (folder / "rbench.json").write_text(json.dumps({**about, "meta": {}}))
    with refusal(JobError, "rbench.json"):
        run(folder)
    (folder / "rbench.json").write_text(json.dumps(about))
    wide = EncoderClassifier(tiny.encoder(bert), 5)
    wide.save(folder.parent / "wide", {"labels": LABELS})
    (folder.parent / "wide" / "head.safetensors").replace(folder / "head.safetensors")
    with refusal(JobError, "head.safetensors"):
        run(folder)


def test_a_head_for_vectors_made_in_another_way_is_refused(folder: Path) -> None:
    for pooling, length, named in (("cls", None, ("pooling", "cls")), ("mean", 16, ("max_length", "16"))):
        encoder = SentenceEncoder.open(folder, pooling=pooling, max_length=length)  # type: ignore[arg-type]
        context = tiny.context(encoder, tiny.data(train=8), Training(), weights=folder)
        with refusal(JobError, *named):
            saved.SavedStrategy().run(saved.Options(), context)
    normal = SentenceEncoder.open(folder, pooling="mean", settings=ReadingSettings(normalize=True))
    with refusal(JobError, "normalize", "False"):
        saved.SavedStrategy().run(saved.Options(), tiny.context(normal, tiny.data(train=8), Training(), weights=folder))
