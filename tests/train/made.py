"""Makes objectives for the tests of their losses: on a tiny base, in float64, on four sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rbench.config.registry import Registry
from rbench.train import objectives
from rbench.train.contrastive import Batch, ContrastiveObjective
from tests.train import bases

OTHER = ("mlm", "cline", "declutr", "whitening", "flow", "forget", "retrofit", "distillation", *bases.MOMENTUM)
CONTRASTIVE = [name for name in Registry().names("objectives") if name not in OTHER]
SENTENCES = ["the film was good", "a plot", "awful story and a dull film", "lovely the was"]


def made(name: str, base: Path, dropout: float = 0.0, **options: Any) -> ContrastiveObjective:
    """The objective in float64, in train mode, with a dropout that the objective would not take for itself."""
    torch.manual_seed(0)
    module = objectives.find(name)
    built: Any = module.build(
        module.Options(**{"dropout": 0.1, **bases.OPTIONS.get(name, {}), **options}), bases.spec(name, base), base, None
    )
    built.model.double().train()
    for part in built.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = dropout
        if hasattr(part, "dropout_prob"):
            part.dropout_prob = dropout
    return built  # type: ignore[no-any-return]


def batch_of(built: ContrastiveObjective) -> Batch:
    inputs = built.collate([built.features(text) for text in SENTENCES])
    return Batch(inputs["input_ids"], inputs["attention_mask"], inputs["special_tokens_mask"])


def run(built: ContrastiveObjective, batch: Batch, seed: int = 5) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return built.model(batch.ids, batch.mask, batch.special)  # type: ignore[no-any-return]


def heads_seen(built: ContrastiveObjective, batch: Batch) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The losses and every vector that left the head, in order."""
    seen: list[Tensor] = []
    hook = built.model.head.register_forward_hook(lambda module, inputs, out: seen.append(out.detach()))
    losses = run(built, batch)
    hook.remove()
    return losses, seen


def formula(z: Tensor, positives: list[Tensor], others: Tensor, tau: float) -> Tensor:
    """Equation 9 with gradients, sentence by sentence: `slow_info_nce` on tensors."""
    terms = []
    for i in range(len(z)):
        above = sum(torch.exp(torch.cosine_similarity(z[i], p[i], dim=0) / tau) for p in positives)
        rest = sum(torch.exp(torch.cosine_similarity(z[i], others[j], dim=0) / tau) for j in range(len(z)) if j != i)
        terms.append(-torch.log(above / (above + rest)))
    return torch.stack(terms).mean()
