"""Compares whitening with numpy, tests the flow's likelihood, and the files that both write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rbench import encoders
from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError, PlanError, ResourceError
from rbench.execution.publish import encoder as export
from rbench.plan.lineage import as_loaded
from rbench.plan.prepare import Options, prepare_loaded
from rbench.schema import EncoderSpec, Job
from rbench.train import models, objectives
from rbench.train.likelihood import LikelihoodObjective
from rbench.train.loop import pretrain
from rbench.train.objectives.whitening import whiten
from tests import reference, tiny
from tests.guides import read_yaml_blocks
from tests.refusals import refusal
from tests.train import bases
from tests.train.bases import TEXTS, fitted_spec

QUERIES = ["the film was good and the plot seemed dull", "a story", "awful"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bases.masked_bert(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def whitened(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whitened") / "out"
    pretrain(fitted_spec("whitening", base), base, TEXTS, out, seed=0)
    return out


def loaded(spec: EncoderSpec, where: Path) -> SentenceEncoder:
    return encoders.load(spec.model_copy(update={"train": None}), where)


# -------------------------------------------------------------------------------------------------------- the formula


@given(st.integers(0, 99), st.integers(2, 7), st.integers(1, 7))
def test_whitened_vectors_have_mean_0_and_covariance_1(seed: int, dim: int, k: int) -> None:
    k, random = min(k, dim), np.random.default_rng(seed)
    vectors = random.normal(size=(60, dim)) @ random.normal(size=(dim, dim)) + 5
    mean, W, share = whiten(vectors.astype(np.float32), k)
    white = (vectors.astype(np.float32) - mean) @ W
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(np.cov(white.T, ddof=0).reshape(k, k), np.eye(k), atol=1e-6)
    variances = np.sort(np.linalg.svd(vectors - vectors.mean(0), compute_uv=False) ** 2)[::-1]
    assert share == pytest.approx(variances[:k].sum() / variances.sum(), rel=1e-4)


def test_the_directions_kept_are_those_of_largest_variance() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 4)) * [1, 10, 0.1, 5]
    _, W, _ = whiten(vectors, 2)
    assert np.abs(W).argmax(axis=0).tolist() == [1, 3]
    np.testing.assert_allclose(np.abs(W).max(axis=0), [1 / 10, 1 / 5], rtol=0.1)


def test_directions_that_do_not_vary_are_never_kept() -> None:
    """Layer normalisation leaves one: its numbers sum to 0 before they are scaled."""
    rows = np.random.default_rng(0).normal(size=(100, 6))
    rows = (rows - rows.mean(axis=1, keepdims=True)).astype(np.float32) * np.float32([1, 2, 3, 4, 5, 6]) + 1
    mean, W, share = whiten(rows, None)
    assert W.shape == (6, 5) and share == pytest.approx(1)
    np.testing.assert_allclose(np.cov(((rows - mean) @ W).T, ddof=0), np.eye(5), atol=1e-4)
    with refusal(ValueError, "5", "6"):
        whiten(rows, 6)


@pytest.mark.parametrize(
    ("shape", "k", "named"),
    [
        ((6, 6), None, ["6"]),
        ((4, 6), 4, ["4"]),
        ((20, 6), 7, ["6", "7"]),
    ],
)
def test_too_little_to_whiten_is_refused(shape: tuple[int, int], k: int | None, named: list[str]) -> None:
    with refusal(ValueError, *named):
        whiten(np.random.default_rng(0).normal(size=shape), k)


# ---------------------------------------------------------------------------------------------------------- whitening


@pytest.mark.parametrize("pooling", [pytest.param("cls", marks=pytest.mark.nightly), "mean"])
def test_a_whitened_encoder_is_a_sentence_transformer(pooling: str, base: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = fitted_spec("whitening", base, pooling, options={"dim": 5})
    told: list[tuple[int, int]] = []
    scores = pretrain(spec, base, TEXTS, tmp_path, seed=0, progress=lambda done, total, _: told.append((done, total)))
    assert scores["dim"] == 5 and 0 < scores["kept_variance"] <= 1
    assert told[-1] == (len(TEXTS), len(TEXTS))
    ours = loaded(spec, tmp_path)
    assert ours.dim == 5
    theirs = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(ours.encode(QUERIES), theirs.encode(QUERIES), atol=1e-5)
    assert theirs.encode(QUERIES).shape == (3, 5)
    white = ours.encode(TEXTS)
    np.testing.assert_allclose(np.cov(white.T, ddof=0), np.eye(5), atol=1e-3)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-3)
    assert models.find_obstacle(ours) == ""


def test_a_whitening_is_exported_and_a_flow_is_not(whitened: Path, base: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = fitted_spec("whitening", base).model_copy(update={"train": None})
    dim = export.write_encoder(spec, whitened, tmp_path / "white", lambda folder: None)
    theirs = SentenceTransformer(str(tmp_path / "white"), device="cpu").encode(QUERIES)
    assert theirs.shape == (len(QUERIES), dim)
    np.testing.assert_allclose(encoders.load(spec, whitened).encode(QUERIES), theirs, atol=1e-5)
    pretrain(fitted_spec("flow", base, steps=1), base, TEXTS, tmp_path / "flow", seed=0)
    with pytest.raises(PlanError, match="flow"):
        export.write_encoder(spec, tmp_path / "flow", tmp_path / "out", lambda folder: None)
    assert not (tmp_path / "out").exists()


def test_the_network_stays_as_it_is(whitened: Path, base: Path) -> None:
    ours, before = (
        loaded(fitted_spec("whitening", base), whitened),
        encoders.load(bases.spec("mlm", base, "mean"), base),
    )
    after = ours.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.model.state_dict().items())
    assert ours.dim == 7, "one direction of eight is lost to layer normalisation"


def test_pooling_that_sentence_transformers_lacks_is_for_rbench_alone(base: Path, tmp_path: Path) -> None:
    spec = fitted_spec("whitening", base, "first-last-mean")
    pretrain(spec, base, TEXTS, tmp_path, seed=0)
    assert not (tmp_path / "modules.json").exists()
    assert "its pooling is first-last-mean" in models.find_obstacle(loaded(spec, tmp_path))


def test_word_vectors_are_whitened_too(tmp_path: Path) -> None:
    spec = fitted_spec("whitening", Path("mini-static"), options={"dim": 20})
    texts = [f"The {word} dog slept in my house." for word in ("old", "young", "red", "big", "small")] * 10
    with pytest.raises(JobError, match="20"):
        pretrain(spec, "mini:word_vectors", texts, tmp_path, seed=0)
    spec = fitted_spec("whitening", Path("mini-static"), options={"dim": 2})
    pretrain(spec, "mini:word_vectors", texts, tmp_path, seed=0)
    ours = loaded(spec, tmp_path)
    np.testing.assert_allclose(np.cov(ours.encode(texts).T, ddof=0), np.eye(2), atol=1e-3)
    assert "static word vectors" in models.find_obstacle(ours)


def test_nothing_is_written_where_settings_do_not_fit(base: Path, tmp_path: Path) -> None:
    for spec, texts in (
        (fitted_spec("whitening", base), TEXTS[:8]),
        (fitted_spec("whitening", base, steps=5), TEXTS),
        (fitted_spec("whitening", base, options={"dim": 9}), TEXTS),
        (fitted_spec("flow", base, options={"levels": 4}), TEXTS),
    ):
        with pytest.raises((JobError, ResourceError)):
            pretrain(spec, base, texts, tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("objective", ["whitening", "flow", "simcse", "mlm"])
def test_nothing_is_trained_below_a_transform(objective: str, whitened: Path, tmp_path: Path) -> None:
    more = {"options": {"dropout": 0.1}} if objective == "simcse" else {}
    with pytest.raises(JobError, match="transform"):
        pretrain(fitted_spec(objective, whitened, **more), whitened, TEXTS, tmp_path, seed=0)


# --------------------------------------------------------------------------------------------------------------- flow


@pytest.mark.parametrize("pooling", [pytest.param("mean", marks=pytest.mark.nightly), "first-last-mean"])
def test_a_flow_is_learned_and_read_again(pooling: str, base: Path, tmp_path: Path) -> None:
    spec = fitted_spec("flow", base, pooling)
    scores = pretrain(spec, base, TEXTS * 2, tmp_path / "out", seed=0)
    assert set(scores) == {"loss", "log_likelihood", "uniformity"}
    begun = pretrain(fitted_spec("flow", base, pooling, steps=1), base, TEXTS * 2, tmp_path / "begun", seed=0)
    assert scores["log_likelihood"] > begun["log_likelihood"] + 0.1, "of texts that are held out"
    ours = loaded(spec, tmp_path / "out")
    assert ours.dim == 8 and ours.transform is not None and ours.transform.KIND == "flow"
    z = ours.encode(TEXTS)
    assert np.abs(z.mean(axis=0)).max() < 1 and 0.3 < z.std() < 2, "z is about Gaussian"
    np.testing.assert_allclose(
        ours.transform.inverse(torch.from_numpy(z)).numpy(),
        encoders.load(bases.spec("mlm", base, pooling), base).encode(TEXTS),
        atol=1e-4,
    )
    assert not (tmp_path / "out" / "modules.json").exists()
    assert "a flow follows its pooling" in models.find_obstacle(ours)


def test_the_encoder_below_a_flow_is_frozen_and_without_dropout(base: Path) -> None:
    built: Any = objectives.find("flow").build(objectives.find("flow").Options(), fitted_spec("flow", base), base, None)
    assert isinstance(built, LikelihoodObjective)
    built.model.train()
    batch = built.collate([built.features(text) for text in TEXTS[:8]])
    first, second = built.model(**batch)["loss"], built.model(**batch)["loss"]
    assert torch.equal(first, second)
    first.backward()
    assert all(parameter.grad is None for parameter in built.model.encoder.parameters())
    assert any(parameter.grad is not None for parameter in built.model.flow.parameters())
    with torch.no_grad():
        vectors = built.model.encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        assert first.item() == pytest.approx(-built.model.flow.log_prob(vectors).mean().item() / 8, rel=1e-5)


@pytest.mark.nightly
def test_an_interrupted_flow_goes_on_as_if_nothing_had_been(base: Path, tmp_path: Path) -> None:
    spec = fitted_spec("flow", base, steps=8)

    def stop(done: int, total: int, text: str) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(spec, base, TEXTS, tmp_path / "a", seed=0, checkpoints=tmp_path / "kept", progress=stop)
    resumed = pretrain(spec, base, TEXTS, tmp_path / "a", seed=0, checkpoints=tmp_path / "kept")
    whole = pretrain(spec, base, TEXTS, tmp_path / "b", seed=0)
    assert resumed == pytest.approx(whole)
    first, second = (loaded(spec, tmp_path / name).encode(QUERIES) for name in "ab")
    np.testing.assert_array_equal(first, second)


# ---------------------------------------------------------------------------------------------- planning, and the guide

SUITE = {
    "name": "baselines",
    "encoders": ["mini-static", "whitening-mini", "flow-mini", "mini-bert-first-last"],
    "tasks": ["mini-sentiment"],
    "attacks": ["pwws"],
    "num_examples": 2,
    "resources": "mini",
}


def test_baselines_are_planned_like_any_encoder() -> None:
    plan = prepare_loaded(load_mapping(SUITE, registry=Registry()), Options()).plan
    names = [job.name for job in plan.jobs]
    assert [name for name in names if name.startswith("pretrain")] == [
        "pretrain/mini-bert/seed0",
        "pretrain/whitening-mini/seed0",
        "pretrain/flow-mini/seed0",
    ]
    needs = {job.name: [plan.job(key).name for key in job.needs.values()] for job in plan.jobs}
    assert needs["finetune/mini-static/mini-sentiment/clean/seed0"] == []
    assert needs["finetune/flow-mini/mini-sentiment/clean/seed0"] == ["pretrain/flow-mini/seed0"]
    assert type(plan).model_validate_json(plan.model_dump_json()) == plan


def test_an_encoder_over_word_vectors_is_loaded_from_them() -> None:
    vectors = EncoderSpec(name="vectors", word_vectors="mine.txt", pooling="mean")
    short = EncoderSpec(name="short", base="vectors", pooling="mean", max_length=9)
    spec = as_loaded("short", {"vectors": vectors, "short": short})
    assert (spec.name, spec.base, spec.word_vectors, spec.max_length) == ("short", None, "mine.txt", 9)
    assert EncoderSpec.model_validate_json(spec.model_dump_json()) == spec


def test_encoders_without_word_vectors_have_the_keys_they_had() -> None:
    job = next(job for job in reference.plan("table1-local").jobs if job.stage == "finetune")
    assert Job.make(job.spec, job.parts, job.needs, job.seed).key == job.key


@pytest.mark.nightly
def test_the_guides_encoders_are_made_as_they_stand_there(base: Path, tmp_path: Path) -> None:
    specs = {
        name: EncoderSpec.model_validate(data) for name, data in read_yaml_blocks("guide-add-an-encoder.md").items()
    }
    vectors = tmp_path / "models" / "my-vectors.txt"
    vectors.parent.mkdir()
    generator = np.random.default_rng(0)
    vectors.write_text("".join(f"{w} {' '.join(map(str, generator.normal(size=3)))}\n" for w in tiny.WORDS))
    plain, white = specs["encoders/my-vectors"], specs["encoders/my-whitening"]
    where = encoders.locate(plain, [vectors.parent]).where
    assert white.base == plain.name and encoders.load(plain, where).dim == 3
    pretrain(white, where, TEXTS, tmp_path / "white", seed=0)
    np.testing.assert_allclose(np.cov(loaded(white, tmp_path / "white").encode(TEXTS).T, ddof=0), np.eye(2), atol=1e-3)
    flow = specs["encoders/my-flow"]
    assert flow.train is not None and flow.train.steps is not None
    short = flow.model_copy(update={"train": flow.train.model_copy(update={"steps": 2})})
    pretrain(short, base, TEXTS, tmp_path / "flow", seed=0)
    assert loaded(short, tmp_path / "flow").dim == 8


def test_a_missing_package_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_mapping(SUITE, registry=Registry())
    monkeypatch.setattr("rbench.train.objectives.flow.why_no_flow", lambda: "a flow needs normflows")
    with refusal(ResourceError, "flow-mini", "normflows"):
        prepare_loaded(suite, Options())
