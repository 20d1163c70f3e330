"""A student that keeps its teacher's vectors, for sentences as they are and with words replaced."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.spec import EncoderSpec
from rbench.substitution.batched import Geometry, Swapped, Target, at_most
from rbench.train import encoding
from rbench.train.contrastive import Losses, TextObjective
from rbench.train.contrastive_losses import full
from rbench.train.hard_positives import at_random, unchanged
from rbench.train.health_probe import evaluating
from rbench.train.running_sums import RunningSums

VERSION = 1

Substitutions = Literal["random", "hard", "none"]


class Distillation(nn.Module):
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
        super().__init__()
        self.encoder = encoder
        self.teacher = SentenceEncoder(
            copy.deepcopy(encoder.model),
            encoder.tokenizer,
            encoder.pooling,
            encoder.max_length,
            settings=encoder.settings,
        ).requires_grad_(False)
        self.tally = RunningSums("edited", "edited_unchanged", "words", "replaced")
        self.max_length = max_length
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
        if len(texts) != len(input_ids):
            raise JobError("distillation edits whole batches and trains on one GPU: set CUDA_VISIBLE_DEVICES to one.")
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
        swapped = self._swapped(texts, wanted)
        made = [found.texts[0] for found in swapped]
        return made, {
            "edited": len(texts),
            "edited_unchanged": sum(ours == theirs for ours, theirs in zip(texts, made, strict=True)),
            "words": sum(found.num_words for found in swapped),
            "replaced": sum(len(found.substitutions) for found in swapped),
        }

    def _swapped(self, texts: Sequence[str], wanted: Tensor) -> list[Swapped]:
        if self._substitutions == "random":
            return at_random(self._geometry, self._budget, texts)
        if self._substitutions == "none":
            return unchanged(texts)

        def away(z: Tensor, rows: Sequence[int]) -> Tensor:
            return distance(z, wanted[list(rows)])

        return self._geometry(
            [(text,) for text in texts], Target(self.encoder, away, self.max_length), max_words=self._budget
        )

    def tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return input_ids and attention_mask of texts, (n, longest) each, encoded as in the training loop."""
        return encoding.tokens(self.encoder, texts, self.max_length)

    @torch.no_grad()
    def distances(self, texts: Sequence[str]) -> dict[str, float]:
        """Measure on texts that are not trained on, without dropout.

        Substitutions are drawn from a fixed seed; torch's generators stay as they are.

        Returns mean distances from the teacher's vectors of the texts: `distance_kept` of the student's,
        `distance_edited` of the student's after substitutions, and `distance_before` of the teacher's own after the
        same substitutions.
        """
        sums = dict.fromkeys(("kept", "edited", "before"), 0.0)
        device = self.encoder.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), evaluating(self):
            torch.manual_seed(0)
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
