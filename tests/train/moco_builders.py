"""A small objective with a queue, and its parts by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.train.moco import MoCo, MoCoObjective
from rbench.train.options import MomentumOptions
from tests.train import bases


class ReversedWords:
    """Makes positives: the words from last to first, where there are more than `least`."""

    counts: tuple[str, ...] = ("turned",)

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        words = [text.split() for text in texts]
        turned = sum(len(found) > self.least for found in words)
        positives = [" ".join(found[::-1] if len(found) > self.least else found) for found in words]
        return positives, {"turned": turned}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"turned_share": sums["turned"] / sums["positives"]}


def build_moco(base: Path, least: int = 0, dropout: float = 0.0, batch_size: int = 4, **options: Any) -> MoCoObjective:
    """An objective in float64, whose positives are `ReversedWords`."""
    torch.manual_seed(0)
    chosen = MomentumOptions(**{"queue": 10, "dim": 5, "momentum": 0.8, "dropout": dropout, **options})
    spec = bases.spec("btcl", base, batch_size=batch_size)
    built = MoCoObjective(spec, base, chosen, ReversedWords(least))
    built.model.double().train()
    return built


def run_step(built: MoCoObjective, texts: Sequence[str]) -> dict[str, Tensor]:
    """What the model returns for a batch of these texts, its losses among it."""
    out: dict[str, Tensor] = built.model(**built.collate([built.features(text) for text in texts]))
    return out


def project_alone(encoder: SentenceEncoder, head: nn.Module, text: str) -> list[float]:
    """z of one text without padding."""
    inputs = encoder.tokenizer(text, return_tensors="pt", truncation=True, max_length=16)
    with torch.no_grad():
        return head(encoder(**inputs))[0].tolist()  # type: ignore[no-any-return]
