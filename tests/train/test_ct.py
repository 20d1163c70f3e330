"""Contrastive Tension against its printed formula, pair by pair, with two encoders that differ."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.train import objectives
from tests.train.made import SENTENCES, batch_of, made, run


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("negatives", [1, 2, 7])
def test_the_loss_is_the_cross_entropy_of_each_pair(negatives: int, base: Path) -> None:
    built = made("ct", base, negatives=negatives)
    first, second = built.model.parts["first"], built.model.encoder
    with torch.no_grad():  # vectors so short that no sigma is 0 or 1
        for scale, of in ((0.05, first), (0.07, second)):
            for name, value in of.named_parameters():
                if "LayerNorm" in name:
                    value.mul_(scale)
    batch = batch_of(built)
    losses = run(built, batch)
    one, two = (
        of(inputs_embeds=of.model.get_input_embeddings()(batch.ids), attention_mask=batch.mask).detach().tolist()
        for of in (first, second)
    )
    n, same, different = len(SENTENCES), 0.0, 0.0
    for i in range(n):
        same -= math.log(sigma(sum(a * b for a, b in zip(one[i], two[i], strict=True)))) / n
        for k in range(1, min(negatives, n - 1) + 1):
            other = two[(i + k) % n]
            different -= math.log(1 - sigma(sum(a * b for a, b in zip(one[i], other, strict=True)))) / n
    assert losses["same"].item() == pytest.approx(same, rel=1e-10)
    assert losses["different"].item() == pytest.approx(different, rel=1e-10)
    assert losses["loss"].item() == pytest.approx(same + different, rel=1e-10)


def test_both_encoders_begin_alike_and_both_are_trained(base: Path) -> None:
    built = made("ct", base)
    pairs = list(zip(built.model.parts["first"].parameters(), built.model.encoder.parameters(), strict=True))
    assert pairs and all(a is not b and a.equal(b) for a, b in pairs)
    run(built, batch_of(built))["loss"].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for two in pairs[:2] for p in two)
    assert built.kept is built.model.encoder


def test_a_batch_has_more_sentences_than_negatives() -> None:
    spec = load_encoder("ct-bert-base", Registry())
    assert spec.train is not None and spec.pooling == "mean"
    options = objectives.find("ct").Options(**spec.train.options)
    assert options.negatives == 7 and options.problem(spec.train) is None
    small = spec.train.model_copy(update={"batch_size": 7})
    assert "has no 7 other sentences" in (options.problem(small) or "")
