"""Tests distillation under substitutions: the loss against numpy, which words are replaced, and what is learned."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rbench.train import objectives
from rbench.train.loop import pretrain
from rbench.train.substituted import DistillationModel, DistillationObjective, relative_distance
from rbench.words.substitution.segmentation import find_words
from tests.recipes import substitution_toy as toy
from tests.train import bases

TEXTS = toy.sentences(np.random.default_rng(3), 24)[0]
NEAR = {"source": "neighbours", "share": 0.6}
GROUP = {word: k for k, members in enumerate(toy.GROUPS) for word in members}


def made(where: Path, **options: Any) -> DistillationObjective:
    torch.manual_seed(0)
    module = objectives.find("distillation")
    spec = bases.spec("distillation", where, "mean", max_length=40)
    built: Any = module.build(module.Options(**{"dropout": 0.0, **NEAR, **options}), spec, where, toy.resources())
    built.model.train()
    return built  # type: ignore[no-any-return]


def wanted(model: DistillationModel, texts: list[str]) -> torch.Tensor:
    return model.teacher_vectors(model.tokens(texts))


def edited(model: DistillationModel, texts: list[str]) -> list[str]:
    with torch.no_grad():
        return model.edit_texts(texts, wanted(model, texts))[0]


def words(text: str) -> list[str]:
    return [text[start:end].lower() for _, start, end in find_words([text])]


def test_the_loss_is_the_distance_from_the_teacher_of_both_sentences(toy_base: Path) -> None:
    built = made(toy_base, weight=3.0)
    with torch.no_grad():  # a student that has moved
        for parameter in built.encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    torch.manual_seed(5)
    out = built.model(**built.collate([built.features(text) for text in TEXTS[:8]]))
    torch.manual_seed(5)
    others = edited(built.model, TEXTS[:8])
    t = wanted(built.model, TEXTS[:8]).numpy().astype(float)
    h, h_edited = (built.encode(texts).astype(float) for texts in (TEXTS[:8], others))
    kept, away = (((x - t) ** 2).sum(axis=1) / (t**2).sum(axis=1) for x in (h, h_edited))
    assert out["kept"].item() == pytest.approx(kept.mean(), rel=1e-4)
    assert out["edited"].item() == pytest.approx(3.0 * away.mean(), rel=1e-4)
    assert out["loss"].item() == pytest.approx(kept.mean() + 3.0 * away.mean(), rel=1e-4)
    out["loss"].backward()
    assert all(p.grad is None for p in built.model.teacher.parameters())
    assert any(p.grad is not None and p.grad.any() for p in built.encoder.parameters())


def test_a_distance_has_no_unit() -> None:
    h, t = torch.randn(4, 3), torch.randn(4, 3)
    assert torch.allclose(relative_distance(10 * h, 10 * t), relative_distance(h, t), rtol=1e-5)
    assert not relative_distance(t, t).any()


@pytest.mark.parametrize("how", ["random", "hard"])
@pytest.mark.parametrize(("max_words", "share", "budget"), [(10, 0.2, 2), (3, 0.5, 3)])
def test_replaced_words_are_near_and_within_their_budget(
    how: str,
    max_words: int,
    share: float,
    budget: int,
    toy_base: Path,
) -> None:
    built = made(toy_base, substitutions=how, max_words=max_words, share=share)
    total = 0
    for text, other in zip(TEXTS, edited(built.model, TEXTS), strict=True):
        changed = [(a, b) for a, b in zip(words(text), words(other), strict=True) if a != b]
        assert len(changed) <= budget and all(GROUP[a] == GROUP[b] for a, b in changed)
        total += len(changed)
    assert total > len(TEXTS)


def test_hard_substitutions_lead_further_away_than_random_ones(toy_base: Path) -> None:
    hard, random = (made(toy_base, substitutions=how).model.measure_distances(TEXTS) for how in ("hard", "random"))
    assert hard["distance_before"] > 1.1 * random["distance_before"]
    assert hard["distance_edited"] == pytest.approx(hard["distance_before"]), "the student starts as the teacher"


def test_measuring_changes_nothing(toy_base: Path) -> None:
    built = made(toy_base, dropout=0.1)
    model = built.model
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    random = torch.get_rng_state()
    first = built.probe(built.collate([built.features(text) for text in TEXTS]))
    assert first == built.probe(built.collate([built.features(text) for text in TEXTS]))
    assert {"texts", "distance kept", "distance edited", "distance before"} == {*first}
    assert first["distance kept"] == pytest.approx(0), "the student is the teacher yet, and has no dropout here"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert modes == [module.training for module in model.modules()]
    assert torch.equal(random, torch.get_rng_state())


def trained(where: Path, out: Path, steps: int, **options: Any) -> tuple[dict[str, Any], dict[str, float]]:
    spec = bases.spec("distillation", where, "mean", steps=steps, learning_rate=2e-3, options={**NEAR, **options})
    scores = pretrain(spec, where, TEXTS * 20, out, seed=0, resources=toy.resources())
    return load_file(out / "model.safetensors"), scores


def test_training_brings_edited_sentences_back(toy_base: Path, tmp_path: Path) -> None:
    after, scores = trained(toy_base, tmp_path / "out", steps=30, dropout=0.0)
    assert scores["distance_edited"] < 0.8 * scores["distance_before"]
    assert scores["distance_kept"] < scores["distance_edited"], "what is written is kept more closely"
    assert scores["words_replaced"] == pytest.approx(0.6, abs=0.05)
    assert scores["edited"] == 30 * 8 and scores["edited_unchanged"] == 0
    before = load_file(toy_base / "model.safetensors")
    assert after.keys() == before.keys(), "the teacher is not saved"
    assert any(not torch.equal(after[key], before[key]) for key in after)


@pytest.mark.nightly
def test_without_substitutions_and_dropout_there_is_nothing_to_learn(toy_base: Path, tmp_path: Path) -> None:
    after, scores = trained(toy_base, tmp_path / "out", steps=10, dropout=0.0, substitutions="none")
    before = load_file(toy_base / "model.safetensors")
    assert all(torch.allclose(after[key], before[key], atol=1e-6) for key in after)
    assert scores["loss"] == pytest.approx(0, abs=1e-9) and scores["edited_unchanged"] == scores["edited"]
