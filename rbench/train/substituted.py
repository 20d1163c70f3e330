"""Train on sentences with words replaced: the positives of ADCL, and a student that keeps its teacher's vectors.

Positives are made so that the contrastive loss increases (ADCL, section 3.3), at random, or none. The last two are
controls of ours. They show what a training owes to the adversary, what to any other words of the same candidates, and
what to dropout alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rbench.encoders.sentence import SentenceEncoder
from rbench.schema import EncoderSpec
from rbench.train.contrastive import Losses, TextModel, TextObjective
from rbench.train.heads import as_single_precision
from rbench.train.health import evaluating, untouched
from rbench.train.moco import MoCo, QueueState
from rbench.words.substitution.batched import BatchedGeometry, SearchTarget, SubstitutedText, at_most
from rbench.words.substitution.search import Substitution
from rbench.words.substitution.segmentation import SegmentedTexts

VERSION = 1


class HardPositives:
    """Implement `PositiveSource` by substitutions.

    Args:
        geometry: the Geometry attack, here on equation 1 (see `rbench.train.objectives.adcl`).
        options: those of `rbench.train.objectives.adcl`.
    """

    counts: tuple[str, ...] = ("words", "replaced", "raised")

    def __init__(self, geometry: BatchedGeometry, options: Any) -> None:
        self._geometry, self._options, self._budget = geometry, options, at_most(options.max_words, options.share)

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        """Return X' of each text, and the numbers of words, of words replaced, and the summed increase of the loss."""
        encoder, head = (
            (model.encoder, model.head) if self._options.ranked_by == "query" else (model.key_encoder, model.key_head)
        )
        # The queue as it would be with this batch: an attack against the old one would not see the batch's negatives.
        queue_state = model.queue.after(model.z(model.key_encoder, model.key_head, texts))

        def loss(z: Tensor, rows: Sequence[int]) -> Tensor:
            return model.losses(z, QueueState(queue_state.keys, queue_state.positive_index[list(rows)]))

        target = SearchTarget(encoder, loss, model.max_length, project=head)
        swapped_texts = substitute_words(self._options.positives, self._geometry, self._budget, texts, target)
        changed_rows = [row for row, swapped_text in enumerate(swapped_texts) if swapped_text.substitutions]
        positives = [swapped_text.texts[0] for swapped_text in swapped_texts]
        raised = 0.0
        if changed_rows:
            loss_before = loss(model.z(encoder, head, [texts[row] for row in changed_rows]), changed_rows)
            loss_after = loss(model.z(encoder, head, [positives[row] for row in changed_rows]), changed_rows)
            raised = float((loss_after - loss_before).sum())
        return positives, {**count_words(swapped_texts), "raised": raised}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return `loss_raised`, in nats, and `words_replaced`, a share, 0..1.

        `loss_raised` is the mean increase of equation 1 from X to X'. z is that of the attacked encoder without
        dropout, the key is that of X. Unchanged sentences count as 0.
        """
        return {
            "loss_raised": sums["raised"] / max(1.0, sums["positives"]),
            "words_replaced": sums["replaced"] / max(1.0, sums["words"]),
        }


def substitute_words(
    how: Literal["hard", "random", "same", "none"],
    geometry: BatchedGeometry,
    budget: Callable[[int], int],
    texts: Sequence[str],
    target: SearchTarget,
) -> list[SubstitutedText]:
    """Replace words of each text.

    Args:
        how: `hard`: the words that the Geometry attack finds. `random`: see `substitute_at_random`. Otherwise nothing
            is replaced.
        budget: how many words of a text of L words, at most.
        target: what the attack moves.
    """
    if how == "hard":
        return geometry([(text,) for text in texts], target, max_words=budget)
    if how == "random":
        return substitute_at_random(geometry, budget, texts)
    words_of_texts = SegmentedTexts([(text,) for text in texts]).words
    return [
        SubstitutedText((text,), (), len(text_words)) for text, text_words in zip(texts, words_of_texts, strict=True)
    ]


def count_words(swapped: Sequence[SubstitutedText]) -> dict[str, float]:
    """Return the numbers of `words` and of words `replaced`."""
    words, replaced = (
        sum(swapped_text.num_words for swapped_text in swapped),
        sum(len(swapped_text.substitutions) for swapped_text in swapped),
    )
    return {"words": words, "replaced": replaced}


def substitute_at_random(
    geometry: BatchedGeometry, budget: Callable[[int], int], texts: Sequence[str]
) -> list[SubstitutedText]:
    """Replace random words of each text by random candidates of the text as it is.

    Random numbers come from torch's global generator.

    Args:
        geometry: says which words may be replaced, and by which.
        budget: how many words of a text of L words, at most.
    """
    segmented = SegmentedTexts([(text,) for text in texts])
    swapped_texts = []
    for row, words in enumerate(segmented.words):
        replaceable = [place for place, word in enumerate(words) if word.lower() not in geometry.stopwords]
        spans = segmented.spans[row]
        proposals = geometry.source([(texts[row], *spans[place][1:]) for place in replaceable])
        with_candidates = [(place, choices) for place, choices in zip(replaceable, proposals, strict=True) if choices]
        # Words without a candidate are left out before the draw: otherwise they would use up the budget.
        order = torch.randperm(len(with_candidates)).tolist()[: budget(len(words))]
        changed, substitutions = list(words), []
        for step, (place, choices) in enumerate((with_candidates[k] for k in order), 1):
            changed[place] = choices[int(torch.randint(len(choices), ()))]
            substitutions.append(Substitution(place, words[place], changed[place], 0.0, step))
        columns = segmented.columns(row, tuple(changed))
        swapped_texts.append(
            SubstitutedText(
                columns,
                tuple(substitutions),
                len(words),
                asked=len(replaceable),
                without=len(replaceable) - len(with_candidates),
            )
        )
    return swapped_texts


# ----------------------------------------------------------------------------------------------------- distillation


class DistillationModel(TextModel):
    """The student, and the teacher, which is a copy of it that stays as it is.

    Args:
        encoder: the student, as it starts.
        geometry: replaces words.
        options: those of `rbench.train.objectives.distillation`.
        max_length: edited sentences are cut there, in tokens.
    """

    def __init__(self, encoder: SentenceEncoder, geometry: BatchedGeometry, options: Any, max_length: int) -> None:
        super().__init__(encoder, max_length, ("edited", "edited_unchanged", "words", "replaced"))
        self.teacher = self.frozen_copy()
        self._geometry, self._options = geometry, options
        self._budget = at_most(options.max_words, options.share)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, texts: Sequence[str]) -> Losses:
        """Return `loss` = `kept` + `edited`, each the mean `relative_distance` of the student's vectors from the
        teacher's.

        Args:
            input_ids, attention_mask: (n, length).
            texts: the same n texts as strings.

        Cost: 3 forward and 2 backward passes, and the search for words if they are hard.
        """
        clean = {"input_ids": input_ids, "attention_mask": attention_mask}
        with torch.no_grad():
            teacher_rows = self.teacher_vectors(clean)
            edited_texts, sums = self.edit_texts(texts, teacher_rows)
        self.tally.add(**sums)
        # Weights that autocast remembers from a pass without gradients would have none below, in some PyTorch versions.
        torch.clear_autocast_cache()
        kept_loss = relative_distance(self.encoder(**clean), teacher_rows).mean()
        edited = (
            self._options.weight * relative_distance(self.encoder(**self.tokens(edited_texts)), teacher_rows).mean()
        )
        return {"loss": kept_loss + edited, "kept": kept_loss, "edited": edited}

    @torch.no_grad()
    def teacher_vectors(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the teacher's vectors (n, dim), without dropout."""
        self.teacher.eval()
        vectors: Tensor = self.teacher(**inputs)
        return vectors

    def edit_texts(self, texts: Sequence[str], wanted: Tensor) -> tuple[list[str], dict[str, float]]:
        """Return each text with words replaced, and the numbers of texts, of unchanged ones, of words and of replaced.

        Args:
            wanted: (n, dim), the vectors from which `hard` substitutions lead away.
        """
        target = SearchTarget(self.encoder, lambda z, rows: relative_distance(z, wanted[list(rows)]), self.max_length)
        swapped_texts = substitute_words(self._options.substitutions, self._geometry, self._budget, texts, target)
        edited_texts = [swapped_text.texts[0] for swapped_text in swapped_texts]
        num_unchanged = sum(text == edited_text for text, edited_text in zip(texts, edited_texts, strict=True))
        return edited_texts, {"edited": len(texts), "edited_unchanged": num_unchanged, **count_words(swapped_texts)}

    @torch.no_grad()
    def measure_distances(self, texts: Sequence[str]) -> dict[str, float]:
        """Measure on texts that are not trained on, without dropout.

        Substitutions are drawn from a fixed seed; torch's generators stay as they are.

        Returns mean distances from the teacher's vectors of the texts: `distance_kept` of the student's,
        `distance_edited` of the student's after substitutions, and `distance_before` of the teacher's own after the
        same substitutions.
        """
        sums = dict.fromkeys(("kept", "edited", "before"), 0.0)
        with untouched(self, seed=0), evaluating(self):
            for start in range(0, len(texts), 64):
                chunk = texts[start : start + 64]
                clean = self.tokens(chunk)
                teacher_rows = self.teacher_vectors(clean)
                edited_tokens = self.tokens(self.edit_texts(chunk, teacher_rows)[0])
                sums["kept"] += float(relative_distance(self.encoder(**clean), teacher_rows).sum())
                sums["edited"] += float(relative_distance(self.encoder(**edited_tokens), teacher_rows).sum())
                sums["before"] += float(relative_distance(self.teacher(**edited_tokens), teacher_rows).sum())
        return {f"distance_{name}": value / max(1, len(texts)) for name, value in sums.items()}


def relative_distance(vectors: Tensor, wanted: Tensor) -> Tensor:
    """Return |h - t|^2 / |t|^2 for each row of h and t (n, dim): (n,). Equation 1 has the mean of |h - t|^2."""
    h, t = as_single_precision(vectors), as_single_precision(wanted)
    return (h - t).square().sum(dim=1) / t.square().sum(dim=1).clamp_min(1e-12)


class DistillationObjective(TextObjective):
    """Implement `Objective` and `ProbedObjective`."""

    def __init__(self, spec: EncoderSpec, base: str | Path | None, geometry: BatchedGeometry, options: Any) -> None:
        super().__init__(spec, base, options.dropout, needs_dropout=False)
        self.model = DistillationModel(self.encoder, geometry, options, self._max_length)

    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Return the distances of `DistillationModel.distances` for a batch of held-out texts."""
        texts = batch["texts"]
        return {
            "texts": float(len(texts)),
            **{k.replace("_", " "): v for k, v in self.model.measure_distances(texts).items()},
        }

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return `uniformity` and the distances of held-out texts, and what was counted in training.

        `edited` is how many sentences were edited, `edited_unchanged` how many of them stayed as they were,
        `words_replaced` the share of words, 0..1.
        """
        sums = self.model.tally.sums()
        return {
            **super().scores(texts),
            **self.model.measure_distances(texts),
            **{name: sums[name] for name in ("edited", "edited_unchanged")},
            "words_replaced": sums["replaced"] / max(1.0, sums["words"]),
        }
