"""Gradients of every part of every loss, and what mixed precision does to them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rbench.train import contrastive, contrastive_losses, perturb
from rbench.train.contrastive import Batch, ContrastiveObjective
from tests.train.made import CONTRASTIVE, batch_of, made, run


def constants(built: ContrastiveObjective, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold what the equations hold constant: perturbations, the virtual label, the generator's edit."""
    kept: dict[str, Any] = {}

    def once(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*a: Any, **k: Any) -> Any:
            if name not in kept:
                kept[name] = copy.deepcopy(f(*a, **k))
            return kept[name]

        return call

    monkeypatch.setattr(perturb, "ascend", once("delta", perturb.ascend))
    monkeypatch.setattr(contrastive, "fgm", once("r", perturb.fgm))
    monkeypatch.setattr(perturb, "fgm", once("step", perturb.fgm))
    parts: Any = built.model.parts
    if "detection" in parts:
        monkeypatch.setattr(parts["detection"], "edit", once("edit", parts["detection"].edit))
        monkeypatch.setattr(parts["table"], "store", lambda *a: None)
    js = contrastive_losses.DIVERGENCES["js"]

    def with_first_label(label: Tensor, q: Tensor) -> Tensor:
        return js(kept.setdefault("label", label.clone()), q)

    monkeypatch.setitem(contrastive_losses.DIVERGENCES, "js", with_first_label)


EVERYDAY = ("simcse", "consert", "uscal", "robustsentembed", "vadvcse")
"""The rest is nightly: `atcl` has the terms of `uscal`, `robustembed` those of `robustsentembed`."""


@pytest.mark.parametrize(
    "name", [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.nightly) for name in CONTRASTIVE]
)
def test_gradients_of_every_part_are_finite_differences(name: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"vadvcse": {"lam": 1.0, "sigma": 0.3}, "robustsentembed": {"lambda1": 1.0, "lambda2": 0.1}}
    built = made(name, base, **weights.get(name, {}))
    batch = batch_of(built)
    constants(built, batch, monkeypatch)
    losses = run(built, batch)
    trained = [p for p in built.model.parameters() if p.requires_grad]
    generator = torch.Generator().manual_seed(0)
    if "original" in built.model.parts:  # the distance of two copies that begin alike has no gradient there
        move(trained, [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in trained], 0.01)
    for part in losses:
        direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in trained]
        grads = torch.autograd.grad(run(built, batch)[part], trained, allow_unused=True)
        exact = sum(float((g * d).sum()) for g, d in zip(grads, direction, strict=True) if g is not None)
        step = 1e-6
        values = []
        for sign in (1, -1):
            move(trained, direction, sign * step)
            values.append(run(built, batch)[part].item())
            move(trained, direction, -sign * step)
        assert exact == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-7)
        assert abs(exact) > 1e-9, "this direction would not tell"


def move(parameters: list[nn.Parameter], direction: list[Tensor], step: float) -> None:
    with torch.no_grad():
        for p, d in zip(parameters, direction, strict=True):
            p.add_(step * d)


@pytest.mark.parametrize("name", ["simcse", "robustsentembed", "vadvcse"])
def test_mixed_precision_changes_little(name: str, base: Path) -> None:
    built = made(name, base, temperature=0.5)
    built.model.float()
    batch = batch_of(built)
    exact = run(built, batch)["loss"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = run(built, batch)["loss"]
    assert mixed.dtype == torch.float32
    mixed.backward()
    assert all(p.grad.isfinite().all() for p in built.model.parameters() if p.grad is not None)
    assert exact > 0.1 and mixed.item() == pytest.approx(exact.item(), rel=0.05)
