"""Tests replaced-token detection inside its objective: what is trained, what is edited, and its cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.train.made import batch_of, made, run


def test_the_generator_is_never_trained_and_never_drops_out(base: Path) -> None:
    built = made("robustsentembed", base)
    detection: Any = built.model.parts["detection"]
    run(built, batch_of(built))["loss"].backward()
    assert all(p.grad is None and not p.requires_grad for p in detection.generator.parameters())
    assert detection.discriminator.training and not detection.generator.training
    assert all(p.grad is not None for p in detection.original.parameters())


def test_the_encoder_learns_from_the_detection_through_h(base: Path) -> None:
    built = made("robustsentembed", base, lambda2=1.0)
    detected = run(built, batch_of(built))["detection"]
    grads = torch.autograd.grad(detected, list(built.encoder.model.parameters()), allow_unused=True)
    assert any(g is not None and g.abs().sum() > 0 for g in grads)


def test_the_generator_edits_words_only_and_draws_from_its_distribution(base: Path) -> None:
    built = made("robustsentembed", base, masking=0.9)
    batch = batch_of(built)
    detection: Any = built.model.parts["detection"]
    torch.manual_seed(0)
    edits = [detection.edit(batch.ids, batch.mask, batch.words) for _ in range(20)]
    outside = batch.words.squeeze(-1) == 0
    assert all(torch.equal(edit[outside], batch.ids[outside]) for edit in edits)
    changed = torch.stack([edit != batch.ids for edit in edits]).double().mean(0)[~outside]
    assert 0.3 < float(changed.mean()) < 1
    assert len({tuple(edit.flatten().tolist()) for edit in edits}) > 15


def test_the_likeliest_words_are_the_same_whatever_is_drawn(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = made("robustsentembed", base, masking=0.9, sample="argmax")
    batch = batch_of(built)
    detection: Any = built.model.parts["detection"]
    masked = torch.full(batch.ids.shape, 0.5)
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: masked)
    first, second = (detection.edit(batch.ids, batch.mask, batch.words) for _ in range(2))
    assert torch.equal(first, second) and not torch.equal(first, batch.ids)


def test_a_distilbert_is_the_generator_of_the_released_variant(base: Path, tmp_path: Path) -> None:
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path)
    words = transformers.AutoConfig.from_pretrained(base).vocab_size
    config = transformers.DistilBertConfig(
        vocab_size=words, dim=8, hidden_dim=8, n_layers=1, n_heads=2, max_position_embeddings=64
    )
    transformers.DistilBertForMaskedLM(config).save_pretrained(tmp_path)
    built = made("robustsentembed", base, variant="released", generator=str(tmp_path))
    assert run(built, batch_of(built))["detection"].isfinite()
    detection: Any = built.model.parts["detection"]
    assert isinstance(detection.generator, transformers.DistilBertForMaskedLM)


def test_the_detection_is_one_pass_of_each_of_its_networks(base: Path) -> None:
    built = made("robustsentembed", base)
    calls: list[str] = []
    detection: Any = built.model.parts["detection"]
    detection.generator.base_model.register_forward_hook(lambda *a: calls.append("G"))
    detection.discriminator.register_forward_hook(lambda *a: calls.append("D"))
    run(built, batch_of(built))
    assert calls == ["G", "D"]
