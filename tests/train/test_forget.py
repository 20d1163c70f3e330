"""Tests encoders that forget: which weights they get, what is measured, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import load_file

from rbench import encoders
from rbench.schema import EncoderSpec
from rbench.train.loop import pretrain
from rbench.train.objectives.forget import Options
from tests.train import bases
from tests.train.bases import TEXTS

Weights = dict[str, NDArray[np.float32]]


def spec(base: Path, by: str, amount: float, **train: object) -> EncoderSpec:
    settings = {"steps": None, "options": {"by": by, "amount": amount}, **train}
    return bases.spec("forget", base, "mean", **settings)


def forgotten(base: Path, out: Path, by: str, amount: float, seed: int = 0) -> tuple[Weights, dict[str, float]]:
    """The weights that are saved, and the scores."""
    scores = pretrain(spec(base, by, amount), base, TEXTS, out, seed=seed)
    return load_file(out / "model.safetensors"), scores


def own(base: Path) -> Weights:
    """The base's weights, without its masked-LM head."""
    return {key.removeprefix("bert."): w for key, w in load_file(base / "model.safetensors").items()}


def moved(after: Weights, before: Weights) -> float:
    change = sum(((after[key].astype(float) - before[key]) ** 2).sum() for key in after)
    return float(np.sqrt(change / sum((before[key].astype(float) ** 2).sum() for key in after)))


def test_weights_lie_on_the_line_to_random_ones(base: Path, tmp_path: Path) -> None:
    whole, scores = forgotten(base, tmp_path / "all", "mixing", 1.0)
    part, fewer = forgotten(base, tmp_path / "part", "mixing", 0.3)
    before = own(base)
    for key, weight in part.items():
        np.testing.assert_allclose(weight, 0.7 * before[key] + 0.3 * whole[key], rtol=1e-4, atol=1e-6)
    # What transformers draws: matrices with a standard deviation of `initializer_range`, layer norms 1, biases 0.
    matrices = np.concatenate([w.ravel() for key, w in whole.items() if "query.weight" in key or "word_emb" in key])
    assert 0.2 < matrices.std() < 0.4, "the base has an initializer_range of 0.3"
    assert all((w == 1).all() for key, w in whole.items() if key.endswith("LayerNorm.weight"))
    assert all((w == 0).all() for key, w in whole.items() if key.endswith(".bias"))
    assert scores["weights_moved"] == pytest.approx(moved(whole, before), rel=1e-4)
    assert fewer["weights_moved"] == pytest.approx(0.3 * scores["weights_moved"], rel=1e-4)


def test_noise_is_as_large_as_asked_beside_the_weights_of_each_matrix(base: Path, tmp_path: Path) -> None:
    after, scores = forgotten(base, tmp_path, "noise", 0.5)
    before = own(base)
    large = [key for key in after if after[key].size >= 64]
    assert len(large) > 5
    for key in large:
        change = after[key] - before[key]
        assert np.sqrt((change**2).mean() / (before[key] ** 2).mean()) == pytest.approx(0.5, rel=0.35), key
    still = [key for key in after if not before[key].any()]
    assert still and not any(after[key].any() for key in still)
    assert scores["weights_moved"] == pytest.approx(moved(after, before), rel=1e-4)
    assert scores["weights"] == sum(w.size for w in after.values())


def test_the_cosine_is_of_vectors_before_and_after(base: Path, tmp_path: Path) -> None:
    _, scores = forgotten(base, tmp_path, "mixing", 0.6)
    plain = spec(base, "mixing", 0.6).model_copy(update={"train": None})
    a, b = (encoders.load(plain, where).encode(TEXTS) for where in (base, tmp_path))
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert scores["cosine"] == pytest.approx(float(cosines.mean()), abs=1e-5) and scores["texts"] == len(TEXTS)
    assert scores["cosine"] < 0.99


def test_an_amount_of_0_forgets_nothing_and_the_seed_decides_the_rest(base: Path, tmp_path: Path) -> None:
    none, scores = forgotten(base, tmp_path / "none", "noise", 0.0)
    assert all(np.array_equal(none[key], own(base)[key]) for key in none) and scores["weights_moved"] == 0
    a, b, c = (forgotten(base, tmp_path / str(i), "noise", 0.2, seed)[0] for i, seed in enumerate((0, 0, 1)))
    assert all(np.array_equal(a[key], b[key]) for key in a)
    assert any(not np.array_equal(a[key], c[key]) for key in a)


def test_more_than_everything_cannot_be_mixed() -> None:
    with pytest.raises(ValidationError):
        Options(amount=1.5)
    assert Options(by="noise", amount=1.5).amount == 1.5
