"""Tests that perturbations raise their loss, and that perturbed models still learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.train.made import CONTRASTIVE, batch_of, heads_seen, made, run
from tests.train.slow_losses import slow_info_nce


@pytest.mark.parametrize("name", ["uscal", pytest.param("atcl", marks=pytest.mark.nightly)])
def test_a_step_along_the_gradient_raises_the_contrastive_loss(name: str, base: Path) -> None:
    built = made(name, base, epsilon=0.05)
    _, (z, z_plus, z_adv) = heads_seen(built, batch_of(built))
    assert slow_info_nce(z_adv, [z_plus], z_plus, 0.05) > slow_info_nce(z, [z_plus], z_plus, 0.05)


@pytest.mark.parametrize("name", ["robustembed", pytest.param("robustsentembed", marks=pytest.mark.nightly)])
def test_delta_raises_the_contrastive_loss_on_average(name: str, base: Path) -> None:
    built = made(name, base)
    batch = batch_of(built)
    raised = []
    for seed in range(6):
        torch.manual_seed(seed)
        _, seen = heads_seen(built, batch)
        z, z_plus, z_adv = seen[0], seen[1], seen[-1]
        raised.append(slow_info_nce(z_adv, [z_plus], z_plus, 0.05) - slow_info_nce(z, [z_plus], z_plus, 0.05))
    assert sum(raised) / len(raised) > 0


def test_r_raises_the_divergence(base: Path) -> None:
    still, moved = ({"lam": 1.0, "sigma": 0.05, "epsilon": 0.5, "eta": eta} for eta in (0.0, 0.5))
    losses = [run(made("vadvcse", base, **o), batch_of(made("vadvcse", base, **o)))["virtual"] for o in (still, moved)]
    assert losses[1] > 2 * losses[0]


@pytest.mark.nightly
def test_perturbing_models_stay_models(base: Path) -> None:
    """Every objective lowers its loss on a batch that it sees again and again."""
    for name in CONTRASTIVE:
        built = made(name, base)
        batch = batch_of(built)
        optimizer = torch.optim.Adam([p for p in built.model.parameters() if p.requires_grad], lr=5e-3)
        values = []
        for _ in range(30):
            loss = run(built, batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        assert values[-1] < values[0], name
