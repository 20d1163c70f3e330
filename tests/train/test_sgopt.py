"""SG-OPT against its formula, sentence by sentence and layer by layer, on two copies that differ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from rbench.encoders.sentence import SentenceEncoder
from rbench.train import objectives
from tests.train.made import SENTENCES, batch_of, made, run


@pytest.mark.parametrize("tau", [0.05, 0.7])
def test_the_loss_has_every_layer_as_positive_and_other_sentences_layers_as_negatives(tau: float, base: Path) -> None:
    built = made("sgopt", base, temperature=tau, lam=0.3, width=6)
    original = built.model.parts["original"]
    assert isinstance(original, SentenceEncoder)
    with torch.no_grad():
        for value in built.encoder.model.encoder.parameters():
            value.mul_(1.1)
    batch = batch_of(built)
    losses = run(built, batch)
    project = built.model.parts["projection"]

    def unit(vector: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        out = project(vector.unsqueeze(0))[0].detach().numpy()
        return np.asarray(out / np.linalg.norm(out))

    c, h = [], []
    for text in SENTENCES:
        inputs = {key: x for key, x in built.tokenizer(text, return_tensors="pt").items() if key != "token_type_ids"}
        c.append(unit(built.encoder.model(**inputs).last_hidden_state[0, 0]))
        states = original.model(**inputs, output_hidden_states=True).hidden_states
        h.append([unit(state[0].mean(0)) for state in states])
    assert len(h[0]) == 2, "word embeddings and one layer"
    terms = []
    for i, view in enumerate(c):
        rest = sum(math.exp(view @ layer / tau) for m, of in enumerate(h) for layer in of if m != i)
        for layer in h[i]:
            up = math.exp(view @ layer / tau)
            terms.append(-math.log(up / (up + rest)))
    assert losses["contrastive"].item() == pytest.approx(sum(terms) / len(terms), rel=1e-9)
    own, was = (dict(encoder.model.named_parameters()) for encoder in (built.encoder, original))
    moved = sum(((own[name] - was[name]) ** 2).sum().item() for name in own)
    assert moved > 0 and losses["distance"].item() == pytest.approx(0.3 * moved, rel=1e-9)
    assert losses["loss"].item() == pytest.approx(losses["contrastive"].item() + 0.3 * moved, rel=1e-9)


def test_one_copy_is_trained_but_for_its_embeddings(base: Path) -> None:
    built = made("sgopt", base, dropout=0.5, width=6)
    original = built.model.parts["original"]
    batch = batch_of(built)
    losses = run(built, batch)
    losses["loss"].backward()
    network = built.encoder.model
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.encoder.parameters() if p.requires_grad)
    assert all(p.grad is None for p in (*network.embeddings.parameters(), *original.parameters()))
    assert not original.training and built.encoder.training
    assert losses["distance"].item() == 0, "the copies begin alike"
    assert run(built, batch, seed=6)["loss"] != losses["loss"], "the trained copy has dropout"


def test_the_head_is_that_of_the_code(base: Path) -> None:
    built = made("sgopt", base, width=objectives.find("sgopt").Options().width)
    layers = [part for part in built.model.parts["projection"] if isinstance(part, torch.nn.Linear)]
    assert [layer.out_features for layer in layers] == [4096, 4096]
    assert all(abs(layer.weight.std().item() - 0.3) < 0.05 and not layer.bias.any() for layer in layers)
