"""Scorers: the two heads, saving and loading, and victims that are told apart by their folders."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from rbench.encoders import load_victim
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.reading import ReadingSettings
from rbench.encoders.scorer import CosineHead, EncoderScorer, RegressionHead
from rbench.errors import ResourceError
from rbench.schema import Similarity
from tests import tiny

PAIRS = [("the film was good", "a film was fine"), ("the plot", "awful story and dull"), ("good", "good")]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


def scorer(bert: Path, kind: str) -> EncoderScorer:
    encoder = tiny.encoder(bert)
    torch.manual_seed(1)
    head: CosineHead | RegressionHead = RegressionHead(encoder.dim)
    if kind == "cosine":
        head = CosineHead(np.array([-1.0, 0.2, 0.6, 1.0]), np.array([1.0, 1.0, 3.5, 5.0]))
    return EncoderScorer(encoder, head, (1, 5), 32).eval()


def test_cosine_runs_straight_between_its_knots(bert: Path) -> None:
    made = scorer(bert, "cosine")
    u = torch.eye(2)[:1].repeat(5, 1)
    angles = torch.arccos(torch.tensor([-0.5, 0.2, 0.4, 0.6, 0.9], dtype=torch.float64))
    v = 7 * torch.stack([angles.cos(), angles.sin()], dim=1)
    torch.testing.assert_close(made.raw(u, v), angles.cos())
    torch.testing.assert_close(
        made.score(u, v), torch.tensor([1.0, 1.0, 2.25, 3.5, 4.625], dtype=torch.float64), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("similarity", ["dot", "euclidean", "manhattan"])
def test_vectors_are_compared_as_those_of_the_encoder_also_after_loading(
    similarity: Similarity, bert: Path, tmp_path: Path
) -> None:
    encoder = tiny.encoder(bert)
    encoder.settings = ReadingSettings(similarity=similarity)
    made = EncoderScorer(encoder, CosineHead(np.array([-99.0, 99.0]), np.array([1.0, 5.0]), similarity), (1, 5), 32)
    made.save(tmp_path / "victim", {})
    loaded, _ = EncoderScorer.load(tmp_path / "victim")
    u, v = torch.randn(2, 4, encoder.dim, generator=torch.Generator().manual_seed(0))
    wanted = {
        "dot": [float(a.double() @ b.double()) for a, b in zip(u, v, strict=True)],
        "euclidean": [-math.dist(a.tolist(), b.tolist()) for a, b in zip(u, v, strict=True)],
        "manhattan": [
            -sum(abs(x - y) for x, y in zip(a.tolist(), b.tolist(), strict=True)) for a, b in zip(u, v, strict=True)
        ],
    }
    for one in (made, loaded):
        assert one.raw(u, v).tolist() == pytest.approx(wanted[similarity])


def test_regression_is_a_linear_layer_on_four_features(bert: Path) -> None:
    made = scorer(bert, "regression")
    assert isinstance(made.head, RegressionHead)
    u, v = torch.randn(2, 3, 32).double().unbind()
    weight, bias = made.head.linear.weight[0].detach().numpy(), made.head.linear.bias.item()
    for i in range(3):
        a, b = u[i].numpy(), v[i].numpy()
        raw = sum(weight[k] * x for k, x in enumerate([*a, *b, *abs(a - b), *(a * b)])) + bias
        assert made.raw(u, v)[i].item() == pytest.approx(raw)
        assert made.score(u, v)[i].item() == pytest.approx(1 + 4 / (1 + np.exp(-raw)))


@pytest.mark.parametrize("kind", ["cosine", "regression"])
def test_saves_and_loads_the_same_scores(kind: str, bert: Path, tmp_path: Path) -> None:
    made = scorer(bert, kind)
    made.save(tmp_path / "victim", {"task": "stsb"})
    loaded, meta = load_victim(tmp_path / "victim")
    assert isinstance(loaded, EncoderScorer) and meta == {"task": "stsb"} and not loaded.training
    assert (loaded.scale, loaded.max_length) == ((1.0, 5.0), 32)
    assert (loaded.score_pairs(PAIRS) == made.score_pairs(PAIRS)).all()
    assert not list((tmp_path / "victim").glob("*.bin")) + list((tmp_path / "victim").glob("*.pkl"))


def test_score_pairs_does_not_depend_on_batches(bert: Path) -> None:
    made = scorer(bert, "regression")
    np.testing.assert_allclose(made.score_pairs(PAIRS, batch_size=1), made.score_pairs(PAIRS), atol=1e-6)


def test_a_classifier_is_loaded_as_one(bert: Path, tmp_path: Path) -> None:
    EncoderClassifier(tiny.encoder(bert), 2).save(tmp_path / "victim", {})
    assert isinstance(load_victim(tmp_path / "victim")[0], EncoderClassifier)
    with pytest.raises(ResourceError):
        EncoderScorer.load(tmp_path / "victim")
    with pytest.raises(FileNotFoundError):
        load_victim(tmp_path)


def test_a_damaged_scorer_is_refused(bert: Path, tmp_path: Path) -> None:
    scorer(bert, "cosine").save(tmp_path / "victim", {})
    (tmp_path / "victim" / "head.safetensors").write_bytes(b"")
    with pytest.raises(ResourceError):
        load_victim(tmp_path / "victim")
