"""The Trainer of adversarial fine-tuning. It adds adversarial examples to the clean ones in each training step."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from rbench.encoders.classifier import EncoderClassifier
from rbench.score.health import Starvation
from rbench.tasks import Example
from rbench.train.finetune import FinetuneContext, Finetuned
from rbench.train.finetune._data import label_id
from rbench.train.finetune._options import AdversarialTuningOptions, RandomTuningOptions, SubstitutionTuningOptions
from rbench.train.finetune._tuning import tune
from rbench.words.substitution.batched import BatchedGeometry, SearchTarget, SubstitutedText, at_most
from rbench.words.substitution.word_gradients import find_nearest_boundary

VERSION = 2


def fine_tune(options: SubstitutionTuningOptions, context: FinetuneContext, geometry: BatchedGeometry) -> Finetuned:
    """Fine-tune on clean examples, and then on them and on what `geometry`, or chance, makes of them.

    The scores and what is raised are those of `rbench.train.finetune.adversarial.AdversarialStrategy.run`.
    """
    if options.epochs is not None:
        context = replace(context, training=context.training.model_copy(update={"epochs": options.epochs}))
    tally = AdversarialStats()
    trainer = partial(
        AdversarialTrainer,
        geometry=geometry,
        examples=context.sample("train"),
        options=options,
        fixed=options.protected(context.data.spec),
        tally=tally,
    )
    tuned = tune(
        context, trainer=trainer, warm_epochs=options.clean_epochs, keep=options.keep, note=tally.text, tally=tally
    )
    return replace(tuned, scores=tuned.scores | tally.scores(), health=tally.starvation.health())


@dataclass
class AdversarialStats:
    """Counts over one epoch's searches and the adversarial examples that they made."""

    epoch: int = -1
    searched: int = 0
    """How many texts the search was given."""
    texts: int = 0
    """How many of them it changed: the adversarial examples."""
    replaced: float = 0.0
    """The sum of the examples' shares of words replaced."""
    fooled: int = 0
    """On how many of the examples the model erred."""
    starvation: Starvation = field(default_factory=Starvation)
    """Words that the search asked candidates for."""

    def add(self, epoch: int, made: Sequence[SubstitutedText], fooled: int) -> None:
        """Count one batch: all texts after the search, and on how many of the changed ones the model errs.

        The first batch of a new epoch discards the previous epoch.
        """
        if epoch != self.epoch:
            self.epoch, self.searched, self.texts, self.replaced, self.fooled = epoch, 0, 0, 0.0, 0
            self.starvation = Starvation()
        changed = [swapped for swapped in made if swapped.substitutions]
        self.searched += len(made)
        self.texts += len(changed)
        self.replaced += sum(len(swapped.substitutions) / swapped.num_words for swapped in changed)
        self.fooled += fooled
        self.starvation = self.starvation.more((swapped.asked, swapped.without) for swapped in made)

    def scores(self) -> dict[str, float]:
        """The share of texts that were changed, and of these the mean share of words replaced and the share on which
        the model erred, all 0..1. The two counts behind them: `searched_texts` and `adversarial_texts`.
        """
        n = max(1, self.texts)
        return {
            "changed_share": self.texts / max(1, self.searched),
            "words_replaced": self.replaced / n,
            "fooled": self.fooled / n,
            "searched_texts": float(self.searched),
            "adversarial_texts": float(self.texts),
        }

    def text(self) -> str:
        """The scores as text for the progress; empty before the first search."""
        scores = self.scores()
        shown = (("texts changed", "changed_share"), ("words replaced", "words_replaced"), ("fooled", "fooled"))
        return ", ".join(f"{title} {scores[name]:.1%}" for title, name in shown) if self.searched else ""


class AdversarialTrainer(transformers.Trainer):  # type: ignore[misc]
    """Adds to each batch of the adversarial epochs those of its examples that Geometry's search changes, as changed.

    The search maximises the log-odds against the true label, m = logsumexp(l_k, k != y) - l_y. Cross-entropy is
    log(1 + exp(m)), which grows with m, so both choose the same words and replacements. The gradient of m does not
    vanish where the model is sure. With `direction: deepfool` it maximises the signed distance to the nearest boundary,
    whose gradient is the boundary's normal.

    Args:
        geometry: the search.
        examples: the training examples, in the order of `train_dataset`.
        options: of adversarial fine-tuning.
        fixed: indices of the columns in which nothing is replaced.
        tally: is told of each batch that was searched.
        train_dataset: the training examples as inputs.
        given: further arguments of transformers' Trainer.
    """

    def __init__(
        self,
        *,
        geometry: BatchedGeometry,
        examples: Sequence[Example],
        options: SubstitutionTuningOptions,
        fixed: tuple[int, ...],
        tally: AdversarialStats,
        train_dataset: Sequence[dict[str, Any]],
        **given: Any,
    ) -> None:
        self.geometry, self.examples, self.options, self.fixed, self.tally = geometry, examples, options, fixed, tally
        self._of_epoch: tuple[int, frozenset[int]] | None = None
        self.features = train_dataset
        numbered = [features | {"row": row} for row, features in enumerate(train_dataset)]
        super().__init__(train_dataset=numbered, **given)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """One step on `inputs`: in a clean epoch as they are, otherwise together with adversarial examples."""
        rows = inputs.pop("row").tolist()
        epoch = int(self.state.epoch)
        if epoch >= self.options.clean_epochs:
            # The whole part of the epoch: the Trainer counts it in fractions, and an epoch's texts are drawn once.
            drawn = self._drawn(epoch)
            searched = [row for row in rows if row in drawn]
            swapped_texts = self._make_adversarial(searched, epoch) if searched else []
            # A text that the search left as it was is in the batch already.
            features = [
                self._encode_made(swapped, row)
                for swapped, row in zip(swapped_texts, searched, strict=True)
                if swapped.substitutions
            ]
            fooled = 0
            if features:
                self.model.eval()  # `training_step` puts it into training mode again
                with torch.no_grad():
                    batch = self.data_collator(features).to(self.model.device)
                    fooled = int((self.model(**batch).logits.argmax(dim=1) != batch["labels"]).sum())
            self.tally.add(epoch, swapped_texts, fooled)
            # Clean and adversarial examples share one batch, so that both gradients are of the same weights.
            inputs = self.data_collator([self.features[row] for row in rows] + features)
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def _drawn(self, epoch: int) -> Container[int]:
        """The rows that this epoch changes. They depend on seed and epoch alone, so that a control has the same."""
        rows, n = len(self.examples), self.options.num_texts
        if n is None or n >= rows:
            return range(rows)
        if self._of_epoch is None or self._of_epoch[0] != epoch:
            chosen = np.random.default_rng([self.args.seed, epoch]).choice(rows, n, replace=False)
            self._of_epoch = epoch, frozenset(chosen.tolist())
        return self._of_epoch[1]

    def _make_adversarial(self, rows: list[int], epoch: int) -> list[SubstitutedText]:
        """The examples of these rows after the search against the model as it is now, or after random changes."""
        generators = None
        if isinstance(self.options, RandomTuningOptions):
            # One generator a row, so that a text's draws do not depend on the others of its batch.
            generators = [np.random.default_rng([self.args.seed, epoch, row]) for row in rows]
        victim: EncoderClassifier = self.model
        labels = torch.tensor([label_id(self.examples[row]) for row in rows], device=victim.device)

        def margin(z: Tensor, places: list[int]) -> Tensor:
            """DeepFool's distance to the nearest boundary, negative while the model is right."""
            logits, true_labels, weight = victim.head(z).float(), labels[places], victim.head.weight.detach().float()
            # The choice of the nearest boundary is not differentiated; the gradient is the normal of that boundary.
            nearest = find_nearest_boundary(logits.detach(), true_labels, weight)
            gap = logits.gather(1, nearest.unsqueeze(1)) - logits.gather(1, true_labels.unsqueeze(1))
            distance: Tensor = gap.squeeze(1) / (weight[nearest] - weight[true_labels]).norm(dim=1)
            return distance

        def log_odds(z: Tensor, places: list[int]) -> Tensor:
            logits, true_labels = victim.head(z).float(), labels[places].unsqueeze(1)
            odds: Tensor = logits.scatter(1, true_labels, -math.inf).logsumexp(dim=1) - logits.gather(
                1, true_labels
            ).squeeze(1)
            return odds

        def errs(z: Tensor, places: list[int]) -> list[bool]:
            wrong: list[bool] = (victim.head(z).argmax(dim=1) != labels[places]).tolist()
            return wrong

        stops = errs if self.options.until == "fooled" else None
        deepfool = isinstance(self.options, AdversarialTuningOptions) and self.options.direction == "deepfool"
        loss = margin if deepfool else log_odds
        leave_erring = self.options.erring == "leave"
        return self.geometry(
            [self.examples[row].texts for row in rows],
            SearchTarget(victim.encoder, loss, victim.max_length, over=stops, leave_if_over=leave_erring),
            max_words=at_most(self.options.max_words, self.options.share),
            fixed=self.fixed,
            chance=generators,
        )

    def _encode_made(self, made: SubstitutedText, row: int) -> dict[str, Any]:
        """An adversarial example as model input, under the label of its row."""
        encoded = self.model.tokenizer(*made.texts, truncation=True, max_length=self.model.max_length)
        return {**encoded, "labels": self.features[row]["labels"]}
