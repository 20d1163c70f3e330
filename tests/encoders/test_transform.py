"""Tests transforms after pooling, a linear map and a flow, on disk and in a victim."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from rbench import encoders
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.inference import backends
from rbench.encoders.locate import hash_model
from rbench.encoders.sentence import SentenceEncoder
from rbench.encoders.transform import FlowTransform, LinearTransform
from rbench.errors import ResourceError
from rbench.recipes import Victim
from rbench.schema import EncoderSpec, Training
from rbench.train.finetune import clean
from tests import tiny
from tests.refusals import refusal

TEXTS = ["good", "the film was a good story and a fine plot", "bad plot", "a poor film", "dull"]


def spec(**more: Any) -> EncoderSpec:
    return EncoderSpec(**{"name": "toy", "base": "toy", "pooling": "mean"} | more)


def shaken(module: torch.nn.Module) -> Any:
    """A module with other weights than those it starts with, in eval mode."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


def flow(width: int = 32, levels: int = 2) -> FlowTransform:
    torch.manual_seed(0)
    made = FlowTransform(width, levels=levels, depth=2, hidden=8)
    made.log_prob(3 * torch.randn(64, width) + 1)  # the first batch is what it starts from
    return shaken(made).requires_grad_(False)  # type: ignore[no-any-return]


def linear() -> LinearTransform:
    generator = np.random.default_rng(0)
    weight, bias = generator.normal(size=(5, 32)), generator.normal(size=5)
    return LinearTransform(torch.from_numpy(weight), torch.from_numpy(bias))


MADE = {"linear": linear, "flow": flow}


def encoder(bert: Path, kind: str, pooling: Any = "mean") -> SentenceEncoder:
    plain = SentenceEncoder.open(bert, pooling=pooling)
    return SentenceEncoder(plain.model, plain.tokenizer, pooling, None, "toy", MADE[kind]()).eval()


# ------------------------------------------------------------------------------------------------------------- on disk


@pytest.mark.parametrize(("kind", "pooling"), [("linear", "cls+mlp"), ("flow", "mean"), ("linear", "first-last-mean")])
def test_an_encoder_is_the_same_after_saving(kind: str, pooling: str, bert: Path, tmp_path: Path) -> None:
    before = encoder(bert, kind, pooling)
    before.save(tmp_path / "saved")
    after = encoders.load(spec(pooling=pooling), tmp_path / "saved")
    vectors = before.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), before.dim) == (len(TEXTS), 5 if kind == "linear" else 32)
    np.testing.assert_array_equal(after.encode(TEXTS), vectors)
    assert after.dim == before.dim and after.width == 32
    assert not any(parameter.requires_grad for parameter in after.transform.parameters())
    names = {path.name for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)


def test_the_map_is_applied_to_pooled_vectors(bert: Path) -> None:
    plain, made = SentenceEncoder.open(bert, pooling="mean").encode(TEXTS), linear()
    weight, bias = made.linear.weight.numpy().astype(np.float64), made.linear.bias.numpy()
    np.testing.assert_allclose(encoder(bert, "linear").encode(TEXTS), plain @ weight.T + bias, atol=1e-5)


def test_the_transform_is_computed_in_full_precision(bert: Path) -> None:
    made = encoder(bert, "linear")
    inputs = made.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert made(**inputs).dtype == torch.float32


def test_the_fingerprint_sees_the_transform(bert: Path, tmp_path: Path) -> None:
    encoder(bert, "linear").save(tmp_path / "a")
    first = hash_model(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "transform")
    assert hash_model(tmp_path / "b") != first
    flow().save(tmp_path / "b" / "transform", "mean")
    assert hash_model(tmp_path / "b") not in (first, hash_model(bert))


def test_what_it_was_not_fitted_on_is_refused(bert: Path, tmp_path: Path) -> None:
    where = tmp_path / "saved"
    encoder(bert, "linear").save(where)
    with refusal(ResourceError, "mean", "pooling: mean"):
        encoders.load(spec(pooling="cls"), where)
    with pytest.raises(ResourceError, match="2"):
        encoders.load(spec(layers=1), where)
    assert encoders.load(spec(layers=2), where).dim == 5


@pytest.mark.parametrize("damage", ["{", '{"kind": "flow", "width": 32}'])
def test_a_damaged_transform_is_named(damage: str, bert: Path, tmp_path: Path) -> None:
    encoder(bert, "linear").save(tmp_path / "saved")
    (tmp_path / "saved" / "transform" / "rbench.json").write_text(damage)
    with refusal(ResourceError, "toy", "transform"):
        encoders.load(spec(), tmp_path / "saved")


@pytest.mark.parametrize("activation", [pytest.param(torch.nn.Identity(), marks=pytest.mark.nightly), torch.nn.Tanh()])
def test_a_dense_module_of_others_is_read(activation: torch.nn.Module, bert: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer, models

    transformer = models.Transformer(str(bert))
    torch.manual_seed(0)
    dense = models.Dense(32, 7, activation_function=activation)
    theirs = SentenceTransformer(modules=[transformer, models.Pooling(32, "mean"), dense], device="cpu")
    theirs.save(str(tmp_path / "st"))
    ours = encoders.load(spec(), tmp_path / "st")
    np.testing.assert_allclose(ours.encode(TEXTS), theirs.encode(TEXTS), atol=1e-5)


# --------------------------------------------------------------------------------------------------------- in a victim


def victim(bert: Path, kind: str) -> EncoderClassifier:
    torch.manual_seed(3)
    made = EncoderClassifier(encoder(bert, kind), 3, max_length=20).eval()
    torch.nn.init.normal_(made.head.weight)
    return made


@pytest.mark.parametrize("kind", MADE)
def test_a_victim_is_the_same_after_saving_bit_for_bit(kind: str, bert: Path, tmp_path: Path) -> None:
    made = victim(bert, kind)
    made.save(tmp_path / "victim", {})
    loaded, _ = EncoderClassifier.load(tmp_path / "victim")
    first = Victim(made, "v", backend="torch")(TEXTS)
    assert torch.equal(first, Victim(loaded, "v", backend="torch")(TEXTS))
    alone = Victim(loaded, "v", backend="torch")
    assert torch.equal(first, torch.cat([alone([text]) for text in TEXTS])), "a row does not depend on its batch"


@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        pytest.param(*one, marks=() if one in (("linear", "onednn"), ("flow", "torch")) else pytest.mark.nightly)
        for one in itertools.product(MADE, backends.usable(torch.device("cpu")))
    ],
)
def test_every_back_end_computes_it(kind: str, backend: str, bert: Path) -> None:
    made = victim(bert, kind)
    with torch.no_grad():
        rows = [made(**made.tokenizer(text, return_tensors="pt")).logits for text in TEXTS]
    torch.testing.assert_close(Victim(made, "v", backend=backend)(TEXTS), torch.cat(rows), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["linear", pytest.param("flow", marks=pytest.mark.nightly)])
def test_fine_tuning_goes_through_the_transform_and_leaves_it(kind: str, bert: Path) -> None:
    made = encoder(bert, kind)
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    training = Training(epochs=1, learning_rate=1e-3, batch_size=8)
    tuned, _ = clean.CleanStrategy().run(clean.Options(), tiny.context(made, tiny.data(train=16), training))
    after = tuned.encoder.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert not any(name.startswith("transform") for name in changed)
    assert any("embeddings.word" in name for name in changed)


# ---------------------------------------------------------------------------------------------------------- the flow


@pytest.mark.parametrize(("width", "levels"), [(2, 1), (6, 2), (7, 2), (13, 3), (32, 3)])
def test_a_flow_is_invertible(width: int, levels: int) -> None:
    made, vectors = flow(width, levels), torch.randn(40, width, generator=torch.Generator().manual_seed(2)) * 3
    assert made.dim == width
    torch.testing.assert_close(made.inverse(made(vectors)), vectors, atol=1e-4, rtol=0)
    assert (made(vectors) - vectors).abs().mean() > 0.1


@pytest.mark.parametrize(("width", "levels"), [(4, 1), (7, 2), (9, 3)])
def test_log_likelihood_is_the_change_of_variables(width: int, levels: int) -> None:
    made = flow(width, levels).double()
    for u in torch.randn(5, width, generator=torch.Generator().manual_seed(2), dtype=torch.float64):
        jacobian: Any = torch.autograd.functional.jacobian(lambda x: made(x[None])[0], u)
        prior = scipy.stats.multivariate_normal(np.zeros(width)).logpdf(made(u[None])[0].numpy())
        expected = prior + np.linalg.slogdet(jacobian.numpy())[1]
        assert made.log_prob(u[None]).item() == pytest.approx(expected, rel=1e-9)


def test_couplings_are_additive_and_start_as_nothing() -> None:
    """So before training a flow is a permutation of numbers, each scaled to mean 0 and variance 1 (Glow)."""
    torch.manual_seed(0)
    made, vectors = FlowTransform(6, levels=1, depth=1, hidden=4), 3 * torch.randn(50, 6) + 1
    z = made(vectors).detach()
    standard = (vectors - vectors.mean(0)) / vectors.std(0)
    torch.testing.assert_close(z.sort(dim=1).values, standard.sort(dim=1).values, atol=1e-4, rtol=0)
    moved = shaken(made)
    first, second = (torch.autograd.functional.jacobian(lambda x: moved(x[None])[0], u).det() for u in vectors[:2])
    assert not torch.allclose(moved(vectors).sort(dim=1).values, z.sort(dim=1).values, atol=0.01)
    torch.testing.assert_close(first.abs(), second.abs(), rtol=1e-3, atol=0)


def test_a_flow_needs_room_and_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResourceError):
        FlowTransform(7, levels=3, depth=1, hidden=4)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refusal(ResourceError, "pip install 'rbench[flow]'"):
        FlowTransform(8, levels=1, depth=1, hidden=4)
