"""A student that keeps its teacher's vectors, for sentences as they are and with words replaced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rbench.encoders.sentence import SentenceEncoder
from rbench.spec import EncoderSpec
from rbench.substitution.batched import Geometry, Target, at_most
from rbench.train.contrastive import Losses
from rbench.train.hard_positives import counts, substituted
from rbench.train.heads import full
from rbench.train.health_probe import evaluating, untouched
from rbench.train.texts import TextModel, TextObjective

VERSION = 1

Substitutions = Literal["random", "hard", "none"]


class Distillation(TextModel):
    """The student, and the teacher, which is a copy of it that stays as it is.

    Args:
        encoder: the student, as it starts.
        geometry: replaces words.
        substitutions, weight, max_words, share: as the options of `rbench.train.objectives.distillation`.
        max_length: edited sentences are cut there, in tokens.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        geometry: Geometry,
        *,
        substitutions: Substitutions,
        weight: float,
        max_words: int,
        share: float,
        max_length: int,
    ) -> None:
        super().__init__(encoder, max_length, ("edited", "edited_unchanged", "words", "replaced"))
        self.teacher = self.frozen_copy()
        self._geometry, self._substitutions, self._weight = geometry, substitutions, weight
        self._budget = at_most(max_words, share)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, texts: Sequence[str]) -> Losses:
        """Return `loss` = `kept` + `edited`, each the mean `distance` of the student's vectors from the teacher's.

        Args:
            input_ids, attention_mask: (n, length).
            texts: the same n texts as strings.

        Cost: 3 forward and 2 backward passes, and the search for words if they are hard.

        Raises:
            JobError: `texts` are not as many as rows, because several GPUs share a batch.
        """
        self.check_whole(texts, input_ids, "distillation edits whole batches")
        clean = {"input_ids": input_ids, "attention_mask": attention_mask}
        with torch.no_grad():
            wanted = self.wanted(clean)
            others, counted = self.edited(texts, wanted)
        self.tally.add(**counted)
        # Weights that autocast remembers from a pass without gradients would have none below, in some PyTorch versions.
        torch.clear_autocast_cache()
        kept = distance(self.encoder(**clean), wanted).mean()
        edited = self._weight * distance(self.encoder(**self.tokens(others)), wanted).mean()
        return {"loss": kept + edited, "kept": kept, "edited": edited}

    @torch.no_grad()
    def wanted(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the teacher's vectors (n, dim), without dropout."""
        self.teacher.eval()
        vectors: Tensor = self.teacher(**inputs)
        return vectors

    def edited(self, texts: Sequence[str], wanted: Tensor) -> tuple[list[str], dict[str, float]]:
        """Return each text with words replaced, and the numbers of texts, of unchanged ones, of words and of replaced.

        Args:
            wanted: (n, dim), the vectors from which `hard` substitutions lead away.
        """
        away = Target(self.encoder, lambda z, rows: distance(z, wanted[list(rows)]), self.max_length)
        swapped = substituted(self._substitutions, self._geometry, self._budget, texts, away)
        made = [found.texts[0] for found in swapped]
        same = sum(ours == theirs for ours, theirs in zip(texts, made, strict=True))
        return made, {"edited": len(texts), "edited_unchanged": same, **counts(swapped)}

    @torch.no_grad()
    def distances(self, texts: Sequence[str]) -> dict[str, float]:
        """Measure on texts that are not trained on, without dropout.

        Substitutions are drawn from a fixed seed; torch's generators stay as they are.

        Returns mean distances from the teacher's vectors of the texts: `distance_kept` of the student's,
        `distance_edited` of the student's after substitutions, and `distance_before` of the teacher's own after the
        same substitutions.
        """
        sums = dict.fromkeys(("kept", "edited", "before"), 0.0)
        with untouched(self, seed=0), evaluating(self):
            for start in range(0, len(texts), 64):
                part = texts[start : start + 64]
                clean = self.tokens(part)
                wanted = self.wanted(clean)
                others = self.tokens(self.edited(part, wanted)[0])
                sums["kept"] += float(distance(self.encoder(**clean), wanted).sum())
                sums["edited"] += float(distance(self.encoder(**others), wanted).sum())
                sums["before"] += float(distance(self.teacher(**others), wanted).sum())
        return {f"distance_{name}": value / max(1, len(texts)) for name, value in sums.items()}


def distance(vectors: Tensor, wanted: Tensor) -> Tensor:
    """Return |h - t|^2 / |t|^2 for each row of h and t (n, dim): (n,). Equation 1 has the mean of |h - t|^2."""
    h, t = full(vectors), full(wanted)
    return (h - t).square().sum(dim=1) / t.square().sum(dim=1).clamp_min(1e-12)


class DistillationObjective(TextObjective):
    """Implement `Objective` and `ProbedObjective`.

    Args:
        dropout: of the student in training; None keeps the base's own.
        how: arguments of `Distillation`.
    """

    def __init__(
        self, spec: EncoderSpec, base: str | Path | None, geometry: Geometry, *, dropout: float | None, **how: Any
    ) -> None:
        super().__init__(spec, base, dropout, needs_dropout=False)
        self.model = Distillation(self.encoder, geometry, max_length=self._max_length, **how)

    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Return the distances of `Distillation.distances` for a batch of held-out texts."""
        texts = batch["texts"]
        return {"texts": float(len(texts)), **{k.replace("_", " "): v for k, v in self.model.distances(texts).items()}}

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return `uniformity` and the distances of held-out texts, and what was counted in training.

        `edited` is how many sentences were edited, `edited_unchanged` how many of them stayed as they were,
        `words_replaced` the share of words, 0..1.
        """
        sums = self.model.tally.sums()
        return {
            **super().scores(texts),
            **self.model.distances(texts),
            **{name: sums[name] for name in ("edited", "edited_unchanged")},
            "words_replaced": sums["replaced"] / max(1.0, sums["words"]),
        }
