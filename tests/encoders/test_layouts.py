"""Tests that rbench measures what sentence-transformers would encode, on folders that sentence-transformers writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.model_metadata import read_fields
from rbench.train import models
from rbench.words.resources.sentences import sentence_transformer
from tests.encoders.layouts import LAYOUTS, TEXTS, encoded, opened

EVERYDAY = (
    *("BERT, mean, maximum length", "MPNet, square root, two Dense, normalised", "DistilBERT, lower case"),
    *("Qwen3, last token, padding on the left", "prompt that is not pooled, padding on the left"),
    *("BERT, layer normalisation, dropout", "ModernBERT, cut to its first numbers"),
    *("T5, encoder alone, normalised", "StaticEmbedding, lower case, Dense, normalised"),
)
"""Each network, pooling, prompt and module once; the rest is nightly."""
ROWS = [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.nightly) for name in LAYOUTS]


@pytest.mark.parametrize("name", ROWS)
def test_vectors_are_those_of_sentence_transformers(name: str, saved: Any) -> None:
    folder, theirs = saved(name)
    ours = opened(folder).encode(TEXTS)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    assert np.abs(theirs[0] - theirs[1]).max() > 1e-2  # weights so small that all texts are alike would show nothing


@pytest.mark.parametrize("name", ROWS)
def test_attacks_compare_texts_by_these_vectors(name: str, saved: Any) -> None:
    folder, theirs = saved(name)
    vectors = sentence_transformer(folder, "cpu", backend="torch").vectors(TEXTS).numpy()
    np.testing.assert_allclose(vectors, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ROWS)
def test_the_folders_files_state_the_encoder(name: str, saved: Any) -> None:
    assert read_fields(saved(name)[0]) == LAYOUTS[name][1]


SAVED = (
    *("MPNet, square root, two Dense, normalised", "Qwen3, last token, padding on the left"),
    *("prompt that is not pooled, padding on the left", "StaticEmbedding, lower case, Dense, normalised"),
)
"""Layouts whose files say most, so that most could get lost, and one that is not exported; the rest is nightly."""


@pytest.mark.parametrize(
    "name", [name if name in SAVED else pytest.param(name, marks=pytest.mark.nightly) for name in LAYOUTS]
)
def test_a_victim_and_an_export_encode_the_same(name: str, saved: Any, tmp_path: Path) -> None:
    folder, theirs = saved(name)
    encoder = opened(folder)
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    victim, _ = EncoderClassifier.load(tmp_path / "victim")
    np.testing.assert_array_equal(victim.encoder.encode(TEXTS), encoder.encode(TEXTS))
    if "StaticEmbedding" in name:
        assert "only rbench has" in models.find_obstacle(encoder)
        return
    assert models.find_obstacle(encoder) == ""
    models.save_encoder(tmp_path / "export", victim.encoder)
    np.testing.assert_allclose(encoded(tmp_path / "export"), theirs, atol=1e-5, rtol=1e-5)
    exported = opened(tmp_path / "export")
    np.testing.assert_array_equal(exported.encode(TEXTS), encoder.encode(TEXTS))
    assert exported.settings.similarity == encoder.settings.similarity
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)
