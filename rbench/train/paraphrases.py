"""Make positives from the texts alone, before the first step: back-translations and paraphrases (BTCL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch

from rbench.errors import JobError
from rbench.mini.paraphrase import paraphrase
from rbench.spec import EncoderSpec
from rbench.train.moco import MoCo, MoCoObjective
from rbench.train.options import Momentum
from rbench.train.translation import Progress

VERSION = 1


class Rewriter(Protocol):
    """Rewrites a text with the same meaning; `rbench.train.translation.BackTranslation` is one."""

    def prepare(self, texts: Sequence[str], folder: Path, device: torch.device, progress: Progress | None) -> None:
        """Rewrite these texts, or read their rewritings from `folder`."""
        ...

    def __call__(self, text: str) -> str:
        """Return the rewriting of a prepared text."""
        ...


class MiniParaphraser:
    """`Rewriter` for texts of the embedded world. The paraphrase depends on the text and the seed only.

    Args:
        name: the encoder's name, for error messages.
        seed: seed of the paraphrases.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._name, self._seed = name, seed

    def prepare(self, texts: Sequence[str], folder: Path, device: torch.device, progress: Progress | None) -> None:
        """Check the texts. Nothing is kept: paraphrasing is fast. JobError for a text not of the embedded world."""
        for text in texts:
            self(text)

    def __call__(self, text: str) -> str:
        """Return the paraphrase. JobError for a text that is not of the embedded world."""
        other = paraphrase(text, self._seed)
        if other is None:
            raise JobError(
                f"Encoder {self._name}: `paraphraser: mini` writes the language of the embedded world, and this text "
                f"is not of it: {text[:80]!r}. Other texts need a translation model: `paraphraser: marian`."
            )
        return other


class _Rewritten:
    """`Positives` by a rewriter. A text always has the same positive."""

    counts: tuple[str, ...] = ()

    def __init__(self, rewrite: Rewriter) -> None:
        self.rewrite = rewrite

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        return [self.rewrite(text) for text in texts], {}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {}


class Paraphrased(MoCoObjective):
    """Implement `Objective` and `PreparedObjective`: momentum contrast with rewritten texts as positives."""

    def __init__(self, spec: EncoderSpec, base: str | Path | None, options: Momentum, rewrite: Rewriter) -> None:
        super().__init__(spec, base, options, _Rewritten(rewrite))
        self._rewrite = rewrite

    def prepare(self, texts: Sequence[str], folder: Path, progress: Progress | None) -> None:
        """Rewrite all texts. Translations are kept in `folder`."""
        self._rewrite.prepare(texts, folder, self.encoder.device, progress)
