"""Tests how often objectives run the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rbench.train.contrastive import Batch, ContrastiveObjective
from tests.train.made import batch_of, made, run


def passes(built: ContrastiveObjective, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """Forward passes of the encoder in batches, and gradients that the perturbations take."""
    rows, inner = 0, 0
    grad = torch.autograd.grad

    def count(module: Any, inputs: Any, kwargs: Any, out: Any) -> None:
        nonlocal rows
        rows += len(kwargs["inputs_embeds"])

    def counted(*a: Any, **k: Any) -> Any:
        nonlocal inner
        inner += 1
        return grad(*a, **k)

    built.encoder.model.register_forward_hook(count, with_kwargs=True)
    monkeypatch.setattr(torch.autograd, "grad", counted)
    run(built, batch)
    return rows / len(batch.ids), inner


@pytest.mark.parametrize(
    ("name", "options", "forward", "inner"),
    [
        ("simcse", {}, 2, 0),
        ("consert", {"views": ("none", "adversarial")}, 3, 1),
        ("uscal", {}, 3, 1),
        ("robustembed", {"K": 2, "T": 3}, 6, 3),
        ("robustembed", {"tracks": "separate"}, 13, 5),
        ("robustsentembed", {}, 8, 5),
        ("vadvcse", {}, 4, 1),
    ],
)
def test_passes_are_the_fewest(
    name: str, options: dict[str, Any], forward: int, inner: int, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = made(name, base, **options)
    assert passes(built, batch_of(built), monkeypatch) == (forward, inner)
